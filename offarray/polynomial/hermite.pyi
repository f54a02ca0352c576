from numpy.polynomial.hermite import *
