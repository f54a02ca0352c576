from numpy.polynomial.polynomial import *
