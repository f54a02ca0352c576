from numpy.polynomial.chebyshev import *
