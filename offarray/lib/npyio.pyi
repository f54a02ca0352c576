from numpy.lib.npyio import *
