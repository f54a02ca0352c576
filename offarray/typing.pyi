from numpy.typing import *
