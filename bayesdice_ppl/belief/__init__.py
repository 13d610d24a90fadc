"""Beliefs: posterior draws of the candidates' values, as an ArviZ DataTree.

`BeliefView` is the schema: the one table of groups, variables and attributes, and the typed way to
read them. `make_belief` builds, `read_values` and its neighbors check and read, `save_belief` and
`load_belief` keep a belief in a netCDF file.
"""

from bayesdice_ppl.belief.account import earned_words, how_made
from bayesdice_ppl.belief.files import load_belief, save_belief
from bayesdice_ppl.belief.make import annotate, make_belief, origin, versions, with_groups
from bayesdice_ppl.belief.moments import ExistingMoments, read_moments
from bayesdice_ppl.belief.read import (
    UnseenMoves,
    UnseenParts,
    ValueDraws,
    Which,
    note_on_starts,
    read_moves,
    read_notes,
    read_statistic,
    read_support,
    read_unseen,
    read_values,
    read_warnings,
)
from bayesdice_ppl.belief.schema import (
    ADDED,
    GROUPS,
    SUPPORT,
    Attribute,
    BeliefView,
    OwnVariables,
    SupportWarning,
    Variable,
    entries,
)

__all__ = [
    "ADDED",
    "GROUPS",
    "SUPPORT",
    "Attribute",
    "BeliefView",
    "ExistingMoments",
    "OwnVariables",
    "SupportWarning",
    "UnseenMoves",
    "UnseenParts",
    "ValueDraws",
    "Variable",
    "Which",
    "annotate",
    "earned_words",
    "entries",
    "how_made",
    "load_belief",
    "make_belief",
    "note_on_starts",
    "origin",
    "read_moments",
    "read_moves",
    "read_notes",
    "read_statistic",
    "read_support",
    "read_unseen",
    "read_values",
    "read_warnings",
    "save_belief",
    "versions",
    "with_groups",
]
