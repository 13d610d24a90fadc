"""What to believe, and what not: support, anchors and convergence."""

from bayesdice_ppl.diagnostics.diagnosis import Check, Diagnosis, diagnose
from bayesdice_ppl.diagnostics.logged import LoggedValue, logged_value
from bayesdice_ppl.diagnostics.support import Support, support_warnings

__all__ = [
    "Check",
    "Diagnosis",
    "LoggedValue",
    "Support",
    "diagnose",
    "logged_value",
    "support_warnings",
]
