"""The answer of `select`: a ranking, the evidence for it, and how it is shown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, final

from bayesdice_ppl.plain import plain_text
from bayesdice_ppl.selection.certificate import Certificate, listing
from bayesdice_ppl.selection.table import as_html, as_text

if TYPE_CHECKING:
    import polars as pl

# Names of a launch that a sentence lists before it counts the rest.
_LISTED = 8


@final
@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """A ranking of candidate policies, best first, and why.

    Attributes
    ----------
    order : list of str
        All N names, best first. Past the depth of the score: by posterior mean, then name.
    launch : list of str
        Those of them that go live: the first k, or fewer where a budget or the score's own
        condition allows no more; none for a score of the whole ranking, or where limits are not
        met.
    expected_loss : float
        Mean over draws and tie-breaks of the score's loss, or the score's other risk; lower is
        better. In reward per step for regret, 1 minus the score for most others.
    normalized_loss : float or None
        For regret, beside it: regret over the range of the values, draw by draw, without a unit.
    loss_standard_error : float
        Monte Carlo error of `expected_loss`, in the same units.
    certificate : Certificate
        What is proven of the ranking, and how close the runner-up comes.
    score : str
        Name of the score.
    k : int
        How many of the best the score is about, and the k of `p_top_k` in the table; for a
        callable, its depth.
    n_draws : int
        How many draws the expectation is over.
    table : polars.DataFrame
        One row per candidate, in `order`: see `bayesdice_ppl.selection.table.summary_table`.
    recommended : bool
        False if the numbers of some candidate cannot be trusted enough to act on the ranking.
    reasons : list of str
        Why not recommended; empty if it is.
    warnings : list of str
        Everything the belief says the logs cannot tell about these candidates.
    notes : list of str
        What could not be checked, as the belief does not say.
    support : dict
        For each name the support figures that the belief has: `moved_mass`, `lost_mass`,
        `effective_sample_size`, `negative_mass`; see `bayesdice_ppl.diagnostics.Support`.
    statistic : str
        What the values are: `"mean"`, or another statistic of the reward of a step.
    risk : str
        Functional of the losses over draws: `"mean"`, or such as `"cvar(0.1)"`.
    baseline : str or None
        The policy that a safe improvement is compared with.
    unseen : str
        What pairs never logged are worth: `"pooled"`, as in the belief, or `"bounds"`, anything
        within a user's; losses are then the highest within them.
    limits_met : bool
        False if too few candidates are surely enough within the limits. Then nobody goes live, and
        the order and the loss are those without limits.
    reward : str or None
        What is ranked, by the rewards' names, where the belief has several.
    rewards : polars.DataFrame or None
        One row per candidate, in `order`, with every reward of a belief that has several: see
        `bayesdice_ppl.selection.rewards_table.rewards_table`.
    """

    order: list[str]
    launch: list[str]
    expected_loss: float
    normalized_loss: float | None
    loss_standard_error: float
    certificate: Certificate
    score: str
    k: int
    n_draws: int
    table: "pl.DataFrame"
    recommended: bool
    reasons: list[str]
    warnings: list[str]
    notes: list[str]
    support: dict[str, dict[str, float]]
    statistic: str = "mean"
    risk: str = "mean"
    baseline: str | None = None
    unseen: str = "pooled"
    limits_met: bool = True
    reward: str | None = None
    rewards: "pl.DataFrame | None" = None

    @property
    def answer(self) -> str:
        """Which candidates to try, or that none is recommended. Why not is in `remarks`."""
        if not self.recommended:
            if not self.limits_met:
                return f"No recommendation: the limits leave nobody to go live. {self.otherwise}"
            about = [name for name in self.order if name in self._named(self.reasons)]
            whose = f"the numbers of {listing(about)}" if about else "the numbers"
            return (
                f"No recommendation: {whose} cannot be trusted, for the reasons given. "
                f"{self.otherwise}"
            )
        head = self._leading
        if self.launch == [self.baseline]:
            return (
                f"Keep {head}, as no other policy is surely enough an improvement: {self._numbers}."
            )
        return f"{'Try' if self.launch else 'Ranked'} {head}: {self._numbers}."

    @property
    def otherwise(self) -> str:
        """What the belief by itself would put first, where it is not recommended: a sentence."""
        who = "Within the bounds one" if self.unseen == "bounds" else "By itself the belief"
        who = who if self.limits_met else "Without limits one"
        return f"{who} would put {self._leading} first, {self._numbers}."

    @property
    def _leading(self) -> str:
        first = self.order if self.limits_met else self.order[:1]
        return listing(self.launch or first, _LISTED)

    @property
    def _numbers(self) -> str:
        """The loss, with its error."""
        expected = "expected " if self.risk == "mean" else ""
        if self.unseen == "bounds":
            expected = "at worst "
        inside = f"Monte Carlo error {self.loss_standard_error:.2g}"
        if self.normalized_loss is not None:
            inside += f"; normalized by the range of the values, {self.normalized_loss:.2%}"
        return f"{expected}{self.score} loss {self.expected_loss:.3g} ({inside})"

    @property
    def remarks(self) -> list[str]:
        """Reasons for no recommendation, other warnings and notes, with these words before."""
        told = [warning for warning in self.warnings if warning not in self.reasons]
        reasons = [f"Reason: {reason}" for reason in self.together(self.reasons)]
        warnings = [f"Warning: {warning}" for warning in self.together(told)]
        return [*reasons, *warnings, *(f"Note: {note}" for note in self.notes)]

    def together(self, sentences: Sequence[str]) -> list[str]:
        """Say once what is said of several candidates in the same words.

        Parameters
        ----------
        sentences
            Warnings, or reasons: a candidate's name, a colon, and what is said of it.
        """
        found: dict[str, list[str]] = {}
        for name, sentence in zip(self._named(sentences), sentences, strict=True):
            found.setdefault(sentence.removeprefix(f"{name}: "), []).append(name)
        return [
            f"{listing(about)}: {said}" if any(about) else said for said, about in found.items()
        ]

    def _named(self, sentences: Sequence[str]) -> list[str]:
        """The candidate that each sentence is about; empty where it names none."""
        names = sorted(self.order, key=len, reverse=True)
        return [
            next((each for each in names if sentence.startswith(f"{each}: ")), "")
            for sentence in sentences
        ]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON can hold it: numbers that are not finite become None.

        Returns
        -------
        dict
            With the attributes' names as keys; `table` is a list of rows.
        """
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content |= {"certificate": self.certificate._asdict(), "table": self.table.to_dicts()}
        content["rewards"] = None if self.rewards is None else self.rewards.to_dicts()
        plain: dict[str, Any] = _plain(content)
        return plain

    def __str__(self) -> str:
        more = [] if self.rewards is None else [as_text(self.rewards), ""]
        lines = [self.answer, "", as_text(self.table), "", *more, self.certificate.statement]
        return plain_text("\n".join([*lines, *self.remarks]))

    def __repr__(self) -> str:
        return f"Selection(order={self.order!r}, score={self.score!r})"

    def _repr_html_(self) -> str:
        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in self.remarks)
        return (
            f"<p><b>{escape(self.answer)}</b></p>{as_html(self.table)}"
            f"{'' if self.rewards is None else as_html(self.rewards)}"
            f"<p>{escape(self.certificate.statement)}</p>"
        ) + (f"<ul>{remarks}</ul>" if remarks else "")


def _plain(content: Any) -> Any:
    """Turn tuples into lists and numbers that are not finite into None, all the way down."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
