"""Case 3 of Giustiniano et al., section VI-C."""

from ..minislots import Minislot

BENCH = Minislot(3)
