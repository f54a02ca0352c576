from numpy.lib.mixins import *
