from numpy.lib.scimath import *
