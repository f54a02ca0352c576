from numpy.lib.format import *
