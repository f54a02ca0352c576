from numpy.lib import *
