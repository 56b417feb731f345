"""Online parameter optimization (S4, section V): slots of measurements, a comparison of two slices, and a search
by comparisons alone. Numbers come in, verdicts and parameters go out; it knows no clock and no randomness. Programs of
jobs import it.
"""

from elf.optimization.comparator import Comparator, Outcome
from elf.optimization.nelder_mead import NelderMead, Parameter
from elf.optimization.paired_test import BETTER, EQUAL, WORSE, PairedTest
from elf.optimization.slice_meter import MeasuredSlot, SliceMeter

__all__ = [
    "BETTER",
    "EQUAL",
    "WORSE",
    "Comparator",
    "MeasuredSlot",
    "NelderMead",
    "Outcome",
    "PairedTest",
    "Parameter",
    "SliceMeter",
]
