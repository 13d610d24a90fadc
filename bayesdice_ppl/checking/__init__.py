"""Check a log before it is used: every fault with its rows and its mend, and figures of the rest.

A fault is of a kind, and each kind has a file. Faults are found in the table as the user gave it,
so that one does not hide another. Figures are of what can be read.
"""

from bayesdice_ppl.checking.check import check
from bayesdice_ppl.checking.fault import Fault, Mend
from bayesdice_ppl.checking.report import LogReport
from bayesdice_ppl.checking.section import Section

__all__ = ["Fault", "LogReport", "Mend", "Section", "check"]
