"""Which model of the ratio to believe: held-out scores, weights, and the average of beliefs."""

from bayesdice_ppl.comparison.compare import Comparison, compare
from bayesdice_ppl.comparison.stack import stack
from bayesdice_ppl.comparison.weights import pseudo_values, stacking_weights

__all__ = ["Comparison", "compare", "pseudo_values", "stack", "stacking_weights"]
