"""What trying a pair that was never logged could save: which one to log first.

Candidates take state-action pairs that the log does not have. What such a pair is worth is a latent
of the belief. If it were known, the values would move, and another ranking might be the better one:
by how much that lowers the expected loss is the value of trying the pair (preposterior analysis:
Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import (
    BeliefView,
    UnseenMoves,
    read_moves,
    read_statistic,
)
from bayesdice_ppl.checks import whole
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.plain import plain_text
from bayesdice_ppl.scores import Score
from bayesdice_ppl.scores.forms import ROUNDING
from bayesdice_ppl.selection.certificate import standard_error
from bayesdice_ppl.selection.known_shift import saved_by_shift
from bayesdice_ppl.selection.present_choice import SHOWN, present_choice, written_out
from bayesdice_ppl.selection.table import as_html, as_text
from bayesdice_ppl.selection.unseen_bounds import takes_logged_actions_alone

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr


@final
@dataclass(frozen=True, eq=False, repr=False)
class TryingValue:
    """How much lower the expected loss would be if a pair that was never logged were known.

    Attributes
    ----------
    table : polars.DataFrame
        One row per pair that was judged, the most valuable first. `state` and `action`; `mass`,
        share of its steps at which the candidate that is ranked first takes the pair; `taken_by`,
        the candidate that takes it most, and `highest_mass`, how often; `value_of_trying`, in
        units of the loss (reward per step for regret), never negative; `standard_error`, its
        Monte Carlo error.
    left_out : int
        How many pairs move the differences between candidates less than those in the table, and
        were not judged.
    expected_loss : float
        Expected loss of the ranking that is selected now.
    order : list of str
        That ranking: see `bayesdice_ppl.Selection.order`.
    score : str
        Name of the score.
    n_draws : int
        How many draws the expectations are over.
    per_step : bool
        Whether losses are in reward per step, as regrets are, or have no unit.
    """

    table: "pl.DataFrame"
    left_out: int
    expected_loss: float
    order: list[str]
    score: str
    n_draws: int
    per_step: bool

    @property
    def answer(self) -> str:
        """One sentence that says which pair to try first, and what that could save."""
        if not len(self.table):
            return "No candidate takes a pair of state and action that the log does not have."
        first = self.table.row(0, named=True)
        value, n_pairs = first["value_of_trying"], len(self.table) + self.left_out
        pairs = "The pair" if n_pairs == 1 else f"Of {n_pairs:,} pairs"
        if value <= 2.0 * first["standard_error"]:
            return (
                f"{pairs} that the log does not have: none would save more than these draws show."
            )
        unit = " per step" if self.per_step else f" in expected {self.score} loss"
        return (
            f"{pairs} that the log does not have: knowing what action {first['action']!r} in state "
            f"{first['state']!r} is worth would save {value:.3g}{unit}. Try it first."
        )

    def __str__(self) -> str:
        if not len(self.table):
            return self.answer
        return plain_text(
            "\n".join([self.answer, "", as_text(self._formatted()), *self._remarks()])
        )

    def __repr__(self) -> str:
        return f"TryingValue(pairs={len(self.table)}, score={self.score!r})"

    def _repr_html_(self) -> str:
        if not len(self.table):
            return f"<p><b>{escape(self.answer)}</b></p>"
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self._remarks())
        return f"<p><b>{escape(self.answer)}</b></p>{as_html(self._formatted())}{remarks}"

    def _remarks(self) -> list[str]:
        more = len(self.table) - SHOWN
        remarks = [f"... and {more} more in the table"] if more > 0 else []
        if self.left_out:
            remarks.append(
                f"{self.left_out:,} more pairs move the candidates apart less than these, and were "
                "not judged. most= says how many are."
            )
        return remarks

    def _formatted(self) -> "pl.DataFrame":
        """Write the numbers out: masses in percent, values to three digits."""
        formats = {
            "mass": ".1%",
            "highest_mass": ".1%",
            "value_of_trying": ".3g",
            "standard_error": ".2g",
        }
        return written_out(self.table, formats)


def value_of_trying(
    belief: "xr.DataTree",
    score: Score,
    *,
    most: int = 50,
    costs: Mapping[str, float] | None = None,
    budget: float | None = None,
    must_include: Collection[str] = (),
    must_exclude: Collection[str] = (),
) -> TryingValue:
    """Tell which state-action pair that was never logged would be worth trying.

    Parameters
    ----------
    belief : xarray.DataTree
        As for `select`, with at least 100 draws, from `bayesdice_ppl.fit` on labels.
    score : Score
        Precision, accuracy, a regret, ndcg, correlation, spearman or kendall, judged by its mean.
    most : int
        How many pairs are judged: those that move the differences between candidates the most.
    costs, budget, must_include, must_exclude
        As for `select`.

    Returns
    -------
    TryingValue
        The same for the same belief and score, always.

    Raises
    ------
    BeliefError
        The belief does not have such pairs as latents, or has fewer than 100 draws.
    ScoreError
        The score does not fit the candidates, or is not judged by its mean.
    SettingsError
        No launch meets the rules, `most` is no whole number of 1 or more, or the values are not
        mean rewards.

    Notes
    -----
    *What is known.* What the pair is worth to each candidate, exactly: its reward, and at
    gamma > 0 what follows. No number of trials tells more, so the value is an upper bound on any.

    *How it moves the values.* A pair's worth is a level, an effect of its state, an effect of its
    action and a residual (`bayesdice_ppl.inference.hierarchy`). Known, it moves each mean by the
    covariance of the value's latents with it over its sd: through the candidate's own mass on the
    pair, and through the effects that it shares with other pairs never logged, both averaged over
    what the spreads of these effects may be. So a pair that all candidates take alike may be
    worth something if it tells of others. Left out are what it tells of logged pairs, and of the
    spreads; a pair that no candidate takes has 0. Moves are taken as normal.

    *Several candidates.* In a bandit a pair is worth the same to all. At gamma > 0 it is not, and
    its worths have the correlation of logged pairs' action values. Then only the combination of
    them counts that moves the differences between candidates the most, so that the value is a
    lower bound.

    *The value.* The pair's part is taken out of the draws and put back at each of 34 worths
    (`bayesdice_ppl.selection.known_shift`). At each the best ranking is chosen on some draws and
    judged on others, so that luck does not count as a gain. A mean below 0 is that noise alone,
    and is reported as 0.
    """
    most = whole("most", most)
    now = present_choice(
        belief,
        score,
        "the value of trying",
        costs=costs,
        budget=budget,
        must_include=must_include,
        must_exclude=must_exclude,
    )
    names, selected = now.names, now.selected
    moves = _moves_of(belief, names)
    directions = np.array([_direction(moves, u) for u in range(moves.mass.shape[1])])
    apart = directions.reshape(-1, len(names)).std(axis=1)
    judged = np.argsort(-apart, kind="stable")[:most]
    saved = [now.per_draw(saved_by_shift(now.problem, now.prefix, directions[u])) for u in judged]
    return TryingValue(
        table=_table(names, moves, judged.tolist(), saved),
        left_out=len(apart) - len(judged),
        expected_loss=selected.expected_loss,
        order=selected.order,
        score=selected.score,
        n_draws=now.n_draws,
        per_step=score.per_step,
    )


def _moves_of(belief: "xr.DataTree", names: tuple[str, ...]) -> UnseenMoves:
    """What knowing pairs never logged does to the means, where the belief has it."""
    if read_statistic(belief) != "mean":
        raise SettingsError(
            "the value of trying: expected values that are mean rewards, found the statistic "
            f"{read_statistic(belief)}: what a pair adds to it is not a reward. Fit the mean."
        )
    moves = read_moves(belief, names)
    if moves is None and takes_logged_actions_alone(BeliefView(belief)):
        nothing = np.zeros((len(names), 0))
        return UnseenMoves([], [], nothing, nothing, np.eye(len(names)))
    if moves is None:
        raise BeliefError(
            "the value of trying: expected a belief that has pairs of state and action never "
            "logged as latents, found none. Fit it on labels with "
            "prior=bd.Prior(unseen='pooled'), the default."
        )
    return moves


def _direction(moves: UnseenMoves, pair: int) -> Float[np.ndarray, " N"]:
    """What the worth of a pair moves the values by, in its sds.

    Of worths that differ between candidates, the combination that moves their differences most.
    """
    covariance = moves.covariance(pair)
    centered = covariance - covariance.mean(axis=0)
    centered = centered - centered.mean(axis=1, keepdims=True)
    variance, axes = np.linalg.eigh(centered)
    if variance[-1] <= ROUNDING * np.trace(covariance):
        return np.zeros(len(covariance))
    moved: np.ndarray = covariance @ axes[:, -1] / np.sqrt(variance[-1])
    return moved


def _table(
    names: tuple[str, ...],
    moves: UnseenMoves,
    pairs: list[int],
    saved: list[Float[np.ndarray, "chain draw"]],
) -> "pl.DataFrame":
    """Average what knowing each pair saves, the largest first."""
    import polars as pl

    takes = [int(np.argmax(moves.mass[:, u])) for u in pairs]
    rows = {
        "state": [moves.state[u] for u in pairs],
        "action": [moves.action[u] for u in pairs],
        "mass": [float(moves.mass[0, u]) for u in pairs],
        "taken_by": [names[j] for j in takes],
        "highest_mass": [float(moves.mass[j, u]) for j, u in zip(takes, pairs, strict=True)],
        "value_of_trying": [max(float(part.mean()), 0.0) for part in saved],
        "standard_error": [standard_error(part) for part in saved],
    }
    kinds = dict.fromkeys(("state", "action", "taken_by"), pl.String)
    table = pl.DataFrame(rows, schema={n: kinds.get(n, pl.Float64) for n in rows})
    return table.sort(["value_of_trying", "state", "action"], descending=[True, False, False])
