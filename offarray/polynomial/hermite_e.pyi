from numpy.polynomial.hermite_e import *
