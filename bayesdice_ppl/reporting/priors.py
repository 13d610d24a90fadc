"""The prior of each value beside its posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.reporting.axis import Axis, axis_of
from bayesdice_ppl.reporting.names import MOST_ROWS, how_many
from bayesdice_ppl.reporting.ranking import value_label, value_numbers
from bayesdice_ppl.selection import Selection

if TYPE_CHECKING:
    from xarray import DataTree

_NORMAL = 1.6448536269514722
"""Sds from the mean to the end of a normal 90 % interval."""


@final
class PriorRow(NamedTuple):
    """A candidate's 90 % intervals, in percent of the axis.

    Attributes
    ----------
    name
        The candidate.
    prior, posterior
        The ends of each.
    words
        The same numbers, for those who do not see the figure.
    """

    name: str
    prior: tuple[float, float]
    posterior: tuple[float, float]
    words: str


@final
class PriorFigure(NamedTuple):
    """Priors and posteriors of the first candidates.

    Attributes
    ----------
    rows
        In the order of the ranking.
    axis
        Their axis.
    caption
        What is drawn.
    """

    rows: tuple[PriorRow, ...]
    axis: Axis
    caption: str


def draw_priors(selection: Selection, belief: DataTree) -> PriorFigure | None:
    """Lay the 90 % intervals of prior and posterior out.

    Parameters
    ----------
    selection
        The ranking, by the belief's own value.
    belief
        The belief.

    Returns
    -------
    PriorFigure or None
        None where the belief says nothing of the prior of a candidate that is shown.
    """
    names = selection.order[:MOST_ROWS]
    found = _prior(belief, names)
    if found is None or not np.isfinite(found).all():
        return None
    numbers = value_numbers(selection)
    table = selection.table.head(len(names))
    after = table.select("hdi90_lower", "hdi90_upper").to_numpy()
    low, high = min(found.min(), after.min()), max(found.max(), after.max())
    axis = axis_of(float(low), float(high), value_label(selection), numbers)
    rows = tuple(
        PriorRow(
            name,
            (axis.at(before[0]), axis.at(before[1])),
            (axis.at(own[0]), axis.at(own[1])),
            f"prior {numbers.cell(before[0])} to {numbers.cell(before[1])}, "
            f"posterior {numbers.cell(own[0])} to {numbers.cell(own[1])}",
        )
        for name, before, own in zip(names, found, after, strict=True)
    )
    caption = "90 % intervals. Gray: before the log. Blue: after it."
    told = how_many(len(names), len(selection.order))
    return PriorFigure(rows, axis, f"{caption} {told}".strip())


def _prior(belief: DataTree, names: list[str]) -> Float[np.ndarray, "N 2"] | None:
    """Ends of the prior's 90 % intervals: of its draws, or of the normal law that it is."""
    if "prior" in belief.children and "value" in belief["prior"].data_vars:
        drawn = belief["prior"]["value"].sel(policy=names).transpose(..., "policy").to_numpy()
        return np.quantile(drawn.reshape(-1, len(names)), [0.05, 0.95], axis=0).T
    view = BeliefView(belief)
    if not (view.has(BeliefView.prior_mean) and view.has(BeliefView.prior_sd)):
        return None
    places = [view.names.index(name) for name in names]
    mean, sd = view.prior_mean[places], view.prior_sd[places]
    return np.stack([mean - _NORMAL * sd, mean + _NORMAL * sd], axis=1)
