from numpy.polynomial.polyutils import *
