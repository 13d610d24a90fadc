"""What is chosen now, as the question what more knowledge would change starts from it.

Policies are numbered as they are ranked now, so that the present choice is 0, 1, 2, ...
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import Which, read_values
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.scores import Score
from bayesdice_ppl.scores.forms import ROUNDING
from bayesdice_ppl.selection.perfect_information import check_known
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import read_rules
from bayesdice_ppl.selection.selecting import select
from bayesdice_ppl.selection.selection import Selection

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr

# Fewer draws than this cannot be divided any further.
_LEAST_DRAWS = 100
# Rows that are shown as text; a table has all.
SHOWN = 20


class PresentChoice(NamedTuple):
    """The ranking that is selected now, and what it is judged by.

    Attributes
    ----------
    selected
        The selection.
    names
        The policies, as they are ranked.
    problem
        Draws in that order, score and rules.
    prefix
        The choice in the problem's numbers.
    shape
        Chains and draws.
    """

    selected: Selection
    names: tuple[str, ...]
    problem: RankingProblem
    prefix: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def n_draws(self) -> int:
        """How many draws there are in all."""
        return len(self.problem.values)

    def per_draw(self, saved: Float[np.ndarray, " M"]) -> Float[np.ndarray, "chain draw"]:
        """What is saved in each draw, 0 where that is rounding."""
        rounding = ROUNDING * self.problem.scale
        return np.where(np.abs(saved) <= rounding, 0.0, saved).reshape(self.shape)


def present_choice(
    belief: "xr.DataTree",
    score: Score,
    what: str,
    statistic: Which = "value",
    **options: Any,
) -> PresentChoice:
    """Select as things are, for the value of knowing more.

    Parameters
    ----------
    belief, score, statistic, **options
        As for `select`.
    what
        What is asked for, for messages.

    Raises
    ------
    BeliefError, ScoreError, SettingsError
        As by `select`; or there are fewer than 100 draws, or the best ranking of a draw is not
        known.
    """
    if isinstance(score, Score):
        check_known(score)
    selected = select(belief, score, statistic=statistic, **options)
    draws = read_values(belief, statistic)
    shape = draws.values.shape[:2]
    n_draws = shape[0] * shape[1]
    if n_draws < _LEAST_DRAWS:
        raise BeliefError(
            f"{what}: expected a belief of at least {_LEAST_DRAWS} draws, found {n_draws}. Fit it "
            "with more."
        )
    names = tuple(selected.order)
    columns = [draws.names.index(name) for name in names]
    values = np.ascontiguousarray(draws.values.reshape(n_draws, -1)[:, columns])
    problem = RankingProblem(values, score, read_rules(names, **options))
    prefix = tuple(range(len(selected.launch if score.partial else names)))
    return PresentChoice(selected, names, problem, prefix, shape)


def written_out(table: "pl.DataFrame", formats: Mapping[str, str]) -> "pl.DataFrame":
    """The first rows of a table as text, each column in its format."""
    import polars as pl

    written = {
        name: [format(cell, formats.get(name, "")) for cell in table[name][:SHOWN]]
        for name in table.columns
    }
    return pl.DataFrame(written)
