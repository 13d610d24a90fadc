"""Find the best ranking: by trying all, by the form of its expected loss, or by searching."""

from bayesdice_ppl.selection.solvers.exhaustive import count_prefixes
from bayesdice_ppl.selection.solvers.found import Found
from bayesdice_ppl.selection.solvers.solving import solve

__all__ = ["Found", "count_prefixes", "solve"]
