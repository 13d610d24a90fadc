"""How much loss is left as more candidates may go live: one selection for each k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bayesdice_ppl import scores
from bayesdice_ppl.digits import written_alike
from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.reporting.axis import Axis, axis_of
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection import loss_by_k

if TYPE_CHECKING:
    from xarray import DataTree

MOST = 10
"""The largest k."""


@final
class LossPoint(NamedTuple):
    """The loss of the best launch of k candidates.

    Attributes
    ----------
    k
        How many go live.
    at
        Place of the loss, percent of the axis.
    ends
        Places of two Monte Carlo errors below and above it.
    loss
        The loss, as it is written.
    launch
        Who goes live.
    asked
        Whether this is the k of the question.
    """

    k: int
    at: float
    ends: tuple[float, float]
    loss: str
    launch: tuple[str, ...]
    asked: bool


@final
class LossFigure(NamedTuple):
    """The loss against k.

    Attributes
    ----------
    points
        With k rising.
    axis
        Of the losses.
    caption
        What is drawn.
    """

    points: tuple[LossPoint, ...]
    axis: Axis
    caption: str


def draw_losses(
    belief: DataTree, score: Score, n_policies: int, options: Mapping[str, Any]
) -> LossFigure | None:
    """Select for every k up to ten, and lay the losses out.

    Parameters
    ----------
    belief
        The belief.
    score
        What a ranking is judged by. Where it has no k that counts who goes live, regret is taken.
    n_policies
        How many candidates there are.
    options
        What else `bayesdice_ppl.select` was given.

    Returns
    -------
    LossFigure or None
        None where less than two k are allowed.
    """
    own = _counts(score)
    rows: list[dict[str, Any]] = []
    refused = []
    for k in range(1, min(n_policies, MOST) + 1):
        try:
            table = loss_by_k(belief, lambda k: _at(score, k, own=own), [k], **options)
        except BayesDiceError:
            refused.append(k)
            continue
        # Rules may leave fewer than k who may go live.
        every = list(table.iter_rows(named=True))
        refused += [k for row in every if len(row["launch"]) != k]
        rows += [row for row in every if len(row["launch"]) == k]
    if len(rows) < 2:
        return None
    losses, errors = [row["expected_loss"] for row in rows], [row["standard_error"] for row in rows]
    numbers = written_alike(losses, [max(losses) / 20.0, *errors])
    lows = [loss - 2.0 * error for loss, error in zip(losses, errors, strict=True)]
    highs = [loss + 2.0 * error for loss, error in zip(losses, errors, strict=True)]
    judged = _at(score, 1, own=own) if own else scores.regret(k=1)
    word = judged.label.replace("@1", "@k")
    unit = "reward per step" if judged.per_step else "lower is better"
    how = "expected" if judged.averaged else judged.risk.name
    label = f"{how} {word} ({unit})"
    axis = axis_of(min(0.0, *lows), max(highs) or 1.0, label, numbers)
    points = tuple(
        LossPoint(
            k=row["k"],
            at=axis.at(row["expected_loss"]),
            ends=(axis.at(low), axis.at(high)),
            loss=f"{row['expected_loss']:.3g} ± {2.0 * row['standard_error']:.1g}",
            launch=tuple(row["launch"]),
            asked=row["k"] == score.k,
        )
        for row, low, high in zip(rows, lows, highs, strict=True)
    )
    caption = (
        f"The {how} loss of the best launch of k candidates, with two Monte Carlo errors. "
        "Filled: the k that was asked for."
    )
    if refused:
        caption += f" The rules allow no launch of k = {', '.join(map(str, refused))}."
    return LossFigure(points, axis, caption)


def _counts(score: Score) -> bool:
    """Whether k of a score is how many go live, and can be another."""
    given: Any = score
    has_k = is_dataclass(given) and any(field.name == "k" for field in fields(given))
    return has_k and score.k is not None and score.depth(10**6) == score.k


def _at(score: Score, k: int, *, own: bool) -> Score:
    given: Any = score
    made: Score = replace(given, k=k) if own else scores.regret(k=k)
    return made
