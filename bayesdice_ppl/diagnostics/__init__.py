"""What to believe, and what not: support, anchors and convergence."""

from bayesdice_ppl.diagnostics.logged import LoggedValue, logged_value
from bayesdice_ppl.diagnostics.support import Support, SupportWarning, support_warnings

__all__ = [
    "LoggedValue",
    "Support",
    "SupportWarning",
    "logged_value",
    "support_warnings",
]
