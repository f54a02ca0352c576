from numpy.polynomial.laguerre import *
