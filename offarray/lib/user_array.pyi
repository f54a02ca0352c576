from numpy.lib.user_array import *
