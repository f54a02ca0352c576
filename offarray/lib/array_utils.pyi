from numpy.lib.array_utils import *
