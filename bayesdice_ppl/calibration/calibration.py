"""What simulated logs say of a procedure: coverage by level, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

if TYPE_CHECKING:
    import polars as pl
    from xarray import DataTree

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
JUDGED = 0.9
"""The level that the verdict is about."""
SLACK = 0.03
"""What coverage may lack of its level."""
CHANCE = 0.01
"""Chance of the verdict against a procedure that covers: half of it over all candidates one by one,
half for all of them together."""


class Record(NamedTuple):
    """The record of a procedure about one candidate, over T logs.

    Attributes
    ----------
    covered
        Share of logs in which the 90 % interval held the truth.
    above, below
        Shares in which the truth was above it, and below it.
    lean
        Mean of truth less the belief's mean, in mean sds of the belief.
    stretch
        Sd of these errors over the mean sd of the belief: 1 is right, 2 is half too narrow.
    abstained
        Share of logs in which the belief about it abstained.
    """

    covered: float
    above: float
    below: float
    lean: float
    stretch: float
    abstained: float


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """How often the intervals of a procedure hold the truth.

    Attributes
    ----------
    names
        The N candidates.
    kind
        How logs were made: parametric, sbc, bootstrap or environment.
    truth
        True value in each of T logs, reward per step, shape (T, N).
    mean, sd
        Of the belief from each log, shape (T, N).
    pit
        Probability of a value below the truth under each belief, shape (T, N).
    abstained
        Whether the belief abstained about the candidate, shape (T, N).
    refused
        Why logs could not be fitted, one message for each.
    notes
        What simulated logs have in common with the log, in words.
    """

    names: tuple[str, ...]
    kind: str
    truth: Float[np.ndarray, "T N"]
    mean: Float[np.ndarray, "T N"]
    sd: Float[np.ndarray, "T N"]
    pit: Float[np.ndarray, "T N"]
    abstained: Bool[np.ndarray, "T N"]
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def trials(self) -> int:
        """Number T of logs that were fitted."""
        return len(self.pit)

    def coverage(self, level: float) -> Float[np.ndarray, " N"]:
        """Share of logs in which the central interval of a level held each candidate's truth."""
        inside = np.abs(self.pit - 0.5) <= 0.5 * level
        return np.asarray(inside.mean(axis=0))

    def record(self, name: str) -> Record:
        """The record about one candidate."""
        j = self.names.index(name)
        pit, width = self.pit[:, j], float(self.sd[:, j].mean())
        error = self.truth[:, j] - self.mean[:, j]
        scale = width if width > 0.0 else 1.0
        half = 0.5 * JUDGED
        return Record(
            covered=float(self.coverage(JUDGED)[j]),
            above=float(np.mean(pit > 0.5 + half)),
            below=float(np.mean(pit < 0.5 - half)),
            lean=float(error.mean() / scale),
            stretch=float(error.std(ddof=1) / scale),
            abstained=float(self.abstained[:, j].mean()),
        )

    @property
    def missed(self) -> tuple[str, ...]:
        """Candidates whose 90 % intervals hold the truth too seldom for that to be chance.

        Coverage is more than three points short, and a binomial test with a chance of 0.5 % over
        all candidates rejects 90 %.
        """
        from scipy.stats import binom

        covered = self.coverage(JUDGED)
        chance = binom.cdf(np.round(covered * self.trials), self.trials, JUDGED)
        short = (covered < JUDGED - SLACK) & (chance < 0.5 * CHANCE / len(self.names))
        return tuple(name for name, miss in zip(self.names, short, strict=True) if miss)

    @property
    def wide(self) -> tuple[str, ...]:
        """Candidates whose 90 % intervals hold the truth too often for that to be chance.

        Coverage is more than three points high, by the same test. Such intervals are honest, and
        wider than they need to be.
        """
        from scipy.stats import binom

        covered = self.coverage(JUDGED)
        chance = binom.sf(np.round(covered * self.trials) - 1, self.trials, JUDGED)
        much = (covered > JUDGED + SLACK) & (chance < CHANCE / len(self.names))
        return tuple(name for name, found in zip(self.names, much, strict=True) if found)

    @property
    def short(self) -> bool:
        """Whether the 90 % intervals of all candidates together hold the truth too seldom.

        Their coverage is more than three points short, and a t-test with a chance of 0.5 % rejects
        90 %. Each log is one number, the share of the candidates whose intervals held the truth,
        since intervals of one log miss together.
        """
        from scipy.stats import t

        inside = np.mean(np.abs(self.pit - 0.5) <= 0.5 * JUDGED, axis=1)
        mean, error = float(inside.mean()), float(inside.std(ddof=1)) / np.sqrt(self.trials)
        if mean >= JUDGED - SLACK:
            return False
        return error == 0.0 or bool(t.cdf((mean - JUDGED) / error, self.trials - 1) < 0.5 * CHANCE)

    @property
    def covers(self) -> bool:
        """Whether intervals hold the truth too seldom neither for a candidate nor for all."""
        return not (self.missed or self.short)

    @property
    def table(self) -> pl.DataFrame:
        """A row for each candidate: coverage by level, and its record."""
        import polars as pl

        rows = []
        by_level = {level: self.coverage(level) for level in LEVELS}
        for j, name in enumerate(self.names):
            found = {f"{100 * level:g} %": float(by_level[level][j]) for level in LEVELS}
            rows.append({"policy": name, **found, **self.record(name)._asdict()})
        return pl.DataFrame(rows).drop("covered")

    @property
    def tree(self) -> DataTree:
        """Probabilities of values below the truth, as `arviz.plot_ecdf_pit` takes them."""
        from arviz_base import from_dict

        found: DataTree = from_dict(
            {"prior_sbc": {"value": self.pit[None]}},
            coords={"policy": list(self.names)},
            dims={"value": ["policy"]},
        )
        return found

    @property
    def answer(self) -> str:
        """What the logs say, in words."""
        covered = self.coverage(JUDGED)
        low, high = covered.min(), covered.max()
        share = (
            f"{low:.0%}" if round(100 * low) == round(100 * high) else f"{low:.0%} to {high:.0%}"
        )
        told = [
            f"90 % intervals covered the truth in {share} of {self.trials:,} logs like "
            f"{'those of the environment' if self.kind == 'environment' else 'yours'} "
            f"({self.kind})."
        ]
        told += [_misses(name, self.record(name)) for name in self.missed]
        if self.short and not self.missed:
            told.append(
                f"Together they do not cover: {covered.mean():.0%} of all intervals held the truth."
            )
        if self.wide:
            told += [
                f"For {name} they are wider than they need to be: its errors are "
                f"{self.record(name).stretch:.2g} times its sd."
                for name in self.wide
            ]
        elif self.covers:
            told.append("That is as often as they should, as far as so many logs can tell.")
        told += self.notes
        if self.refused:
            told.append(
                f"{len(self.refused)} more logs could not be fitted; the first: {self.refused[0]}"
            )
        return " ".join(told)

    def __str__(self) -> str:
        return self.answer


def _misses(name: str, record: Record) -> str:
    side = "above" if record.above >= record.below else "below"
    other = "below" if side == "above" else "above"
    shares = (record.above, record.below)
    most, least = (max(shares), min(shares))
    why = []
    if abs(record.lean) > 0.25:
        where = "low" if record.lean > 0.0 else "high"
        why.append(f"its mean is {abs(record.lean):.1f} sds too {where}")
    if record.stretch > 1.1:
        why.append(f"errors are {record.stretch:.1f} times its sd")
    text = (
        f"They do not cover for {name}: the truth was {side} the interval in {most:.0%} of the "
        f"logs, and {other} it in {least:.0%}"
    )
    text += f"; {' and '.join(why)}." if why else "."
    if record.abstained > 0.0:
        text += f" In {record.abstained:.0%} of them the belief itself abstained."
    return text
