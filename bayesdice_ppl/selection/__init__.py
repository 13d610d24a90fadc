"""Selection: the ranking with the lowest expected loss under a belief, and the proof of it."""

from bayesdice_ppl.selection.by_k import loss_by_k
from bayesdice_ppl.selection.certificate import Certificate
from bayesdice_ppl.selection.information import InformationValue, value_of_information
from bayesdice_ppl.selection.ranks import rank_probabilities
from bayesdice_ppl.selection.selecting import select
from bayesdice_ppl.selection.selection import Selection
from bayesdice_ppl.selection.trying import TryingValue, value_of_trying

__all__ = [
    "Certificate",
    "InformationValue",
    "Selection",
    "TryingValue",
    "loss_by_k",
    "rank_probabilities",
    "select",
    "value_of_information",
    "value_of_trying",
]
