from numpy.lib.stride_tricks import *
