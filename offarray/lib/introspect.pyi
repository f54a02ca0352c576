from numpy.lib.introspect import *
