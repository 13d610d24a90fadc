"""What to believe, and what not: support, anchors and convergence."""

from bayesdice_ppl.diagnostics.logged import LoggedValue, logged_value
from bayesdice_ppl.diagnostics.support import Support, support_warnings

__all__ = [
    "LoggedValue",
    "Support",
    "logged_value",
    "support_warnings",
]
