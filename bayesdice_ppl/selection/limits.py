"""Limits on what else a candidate may do: cost at most this, quality at least that.

A belief of several rewards has joint draws of all. A candidate is within its limits in a draw if
every limited value of that draw is. It may go live if the share of such draws is high enough, and
what is ranked may be another reward.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import read_values
from bayesdice_ppl.checks import is_number
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection.certificate import listing
from bayesdice_ppl.selection.rules import Rules

if TYPE_CHECKING:
    import xarray as xr

type Bounds = tuple[float | None, float | None]

CONFIDENCE = 0.9
"""Least probability of being within all limits, where none is given."""


@final
class LaunchLimits(NamedTuple):
    """Limits as they were asked for.

    Attributes
    ----------
    bounds
        Variable of the belief -> lowest and highest value, reward per step; infinite where there is
        none.
    confidence
        Least probability of being within all of them.
    """

    bounds: dict[str, tuple[float, float]]
    confidence: float = CONFIDENCE

    @property
    def text(self) -> str:
        """All of them: ``cost <= 0.02 and quality >= 0.7``."""
        parts = []
        for name, (low, high) in self.bounds.items():
            parts += [f"{name} >= {low:g}"] * (low > -np.inf) + [f"{name} <= {high:g}"] * (
                high < np.inf
            )
        return " and ".join(parts)

    def met(self, belief: "xr.DataTree", names: Sequence[str]) -> Float[np.ndarray, " N"]:
        """Probability that each candidate is within all limits, shape (N,).

        Raises
        ------
        BeliefError
            The belief has no such variable.
        """
        each_within = []
        for name, (low, high) in self.bounds.items():
            draws = read_values(belief, name)
            order = [draws.names.index(each) for each in names]
            values = draws.values.reshape(-1, len(draws.names))[:, order]
            each_within.append((values >= low) & (values <= high))
        return np.asarray(np.all(each_within, axis=0).mean(axis=0))


def check_limits(
    limits: Mapping[str, Bounds] | None, confidence: float | None
) -> LaunchLimits | None:
    """Read limits as a user gives them.

    Raises
    ------
    SettingsError
        One is no pair of numbers, leaves no room or bounds nothing; or the confidence is out of
        range or stands alone.
    """
    if limits is None or (isinstance(limits, Mapping) and not limits):
        if confidence is not None:
            raise SettingsError(
                "confidence: expected limits beside it, such as {'cost': (None, 0.02)}, found none."
            )
        return None
    if not isinstance(limits, Mapping):
        raise SettingsError(
            "limits: expected a mapping of names to (lowest, highest), such as "
            f"{{'cost': (None, 0.02)}}, found {limits!r}."
        )
    bounds = {}
    for name, pair in limits.items():
        ends = tuple(pair) if isinstance(pair, tuple | list) else ()
        if len(ends) != 2 or not all(end is None or is_number(end) for end in ends):
            raise SettingsError(
                f"limits: expected (lowest, highest) of {name!r}, numbers or None, found {pair!r}."
            )
        low, high = ends
        if low is None and high is None:
            raise SettingsError(f"limits: expected a number among those of {name!r}, found none.")
        bounds[str(name)] = (
            -np.inf if low is None else float(low),
            np.inf if high is None else float(high),
        )
        if bounds[str(name)][0] > bounds[str(name)][1]:
            raise SettingsError(
                f"limits: expected the lowest of {name!r} first, found {low!r} above {high!r}."
            )
    sure = CONFIDENCE if confidence is None else confidence
    if not (is_number(sure) and 0.0 < sure <= 1.0):
        raise SettingsError(
            f"confidence: expected a probability above 0 and at most 1, found {confidence!r}."
        )
    return LaunchLimits(bounds, float(sure))


@final
class Within(NamedTuple):
    """What limits leave of a choice.

    Attributes
    ----------
    rules
        The rules, with those excluded that are not surely enough within the limits.
    notes
        Who they are.
    unmet
        Why nobody may go live, a sentence; empty where enough candidates are left.
    """

    rules: Rules
    notes: list[str]
    unmet: str


def keep_within(
    rules: Rules,
    limits: LaunchLimits,
    met: Float[np.ndarray, " N"],
    score: Score,
    names: Sequence[str],
) -> Within:
    """Exclude the candidates that are not surely enough within the limits.

    Raises
    ------
    SettingsError
        The score launches nobody, or a candidate that must go live is outside.
    """
    launched = score.launches(len(names))
    if launched is None:
        raise SettingsError(
            f"limits: expected a score that says how many go live, found {score.name}, which "
            "judges the whole ranking. Use a score with a k, or a custom one with a depth."
        )
    outside = met < limits.confidence
    sure = f"{limits.confidence:g}"
    clash = np.flatnonzero(outside & rules.required).tolist()
    if clash:
        raise SettingsError(
            f"must_include: {names[clash[0]]!r} is within the limits, {limits.text}, with "
            f"probability {met[clash[0]]:.3g}, below {sure}. Take it off the list, or lower "
            "confidence."
        )
    kept = rules._replace(excluded=rules.excluded | outside)
    left, needed = int((~kept.excluded).sum()), 1 if score.partial else launched
    unmet = ""
    if left < needed:
        likely = int(np.argmax(np.where(rules.excluded, -1.0, met)))
        nearest = f"The likeliest is {names[likely]!r} with {met[likely]:.3g}."
        if not met[likely] > 0.0:
            nearest = "No candidate that may go live is within them in any draw."
        few = "no candidate has" if not left else f"of {needed} candidates to go live {left} have"
        unmet = (
            f"limits: {few} P({limits.text}) of {sure} or more. {nearest} Widen the limits, lower "
            "confidence, or log more."
        )
    if not outside.any():
        return Within(kept, [f"every candidate has P({limits.text}) of {sure} or more"], unmet)
    told = [f"{names[i]} ({met[i]:.3g})" for i in np.flatnonzero(outside).tolist()]
    who = f"outside the limits, with P({limits.text}) below {sure}: {listing(told)}"
    against = (
        "the loss is counted against all candidates, those that the limits exclude too, so it "
        "includes what the limits cost"
    )
    return Within(kept, [who] if unmet else [who, against], unmet)
