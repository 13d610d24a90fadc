"""Checks of a belief: its support, its convergence, and what the logs themselves earned."""

from bayesdice_ppl.diagnostics.diagnosis import Check, Diagnosis, diagnose
from bayesdice_ppl.diagnostics.verdicts import Reason, Verdict
from bayesdice_ppl.fitting.support import Support, support_warnings
from bayesdice_ppl.logs.logged_value import LoggedValue, logged_value

__all__ = [
    "Check",
    "Diagnosis",
    "LoggedValue",
    "Reason",
    "Support",
    "Verdict",
    "diagnose",
    "logged_value",
    "support_warnings",
]
