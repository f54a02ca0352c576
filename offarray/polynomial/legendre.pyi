from numpy.polynomial.legendre import *
