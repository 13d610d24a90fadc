"""From a belief and a score to a ranking, with the evidence that goes with it.

The ranking minimizes the score's expected loss under the belief (Yang et al., Offline Policy
Selection under Uncertainty, section 2.3). It comes with its Monte Carlo error, a certificate, a
table of what is believed of each candidate, and what the logs cannot tell: where that is too
much, the order is still given and no recommendation is made.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bayesdice_ppl.errors import ScoreError, SettingsError
from bayesdice_ppl.scores import Custom, Score
from bayesdice_ppl.selection.certificate import Certificate, certify, standard_error
from bayesdice_ppl.selection.exhaustive import search
from bayesdice_ppl.selection.reading import (
    SUPPORT_VARIABLES,
    SupportWarning,
    read_draws,
    read_statistic,
    read_support,
    read_warnings,
)
from bayesdice_ppl.selection.table import as_html, as_text, summary_table

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr

# Names listed in a sentence before it trails off.
_LISTED = 8


@final
@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """A ranking of candidate policies, best first, and why.

    Attributes
    ----------
    order : list of str
        All N names, best first. Past the depth of the score: by posterior mean, then name.
    expected_loss : float
        Mean over draws and tie-breaks of the score's loss; lower is better. In reward per step
        for regret, 1 minus the score for precision, accuracy and correlation.
    loss_standard_error : float
        Monte Carlo error of `expected_loss`, in the same units.
    certificate : Certificate
        How the ranking is known to be optimal, and how close the runner-up comes.
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
        False if the logs support some candidate too thinly for the ranking to be acted on.
    reasons : list of str
        Why not recommended; empty if it is.
    warnings : list of str
        Everything the belief says the logs cannot tell about these candidates.
    notes : list of str
        What could not be checked, as the belief does not say.
    support : dict
        For each name the support figures that the belief has: `moved_mass`, `lost_mass`,
        `effective_sample_size`.
    statistic : str
        What the values are: `"mean"`, or another statistic of the reward of a step.
    """

    order: list[str]
    expected_loss: float
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

    @property
    def answer(self) -> str:
        """One sentence that says which candidates to try, or that none is recommended, and why."""
        head = ", ".join(self.order[: min(self.k, _LISTED)])
        if self.k > _LISTED:
            head += ", ..."
        numbers = (
            f"expected {self.score} loss {self.expected_loss:.3g} "
            f"(Monte Carlo error {self.loss_standard_error:.2g})"
        )
        if self.recommended:
            return f"Try {head}: {numbers}."
        return (
            f"No recommendation, as the logs support some candidates too thinly "
            f"({'; '.join(self.reasons)}); the belief by itself would put {head} first, {numbers}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON can hold it: numbers that are not finite become None.

        Returns
        -------
        dict
            With the attributes' names as keys; `table` is a list of rows.
        """
        content = {
            "order": self.order,
            "expected_loss": self.expected_loss,
            "loss_standard_error": self.loss_standard_error,
            "score": self.score,
            "statistic": self.statistic,
            "k": self.k,
            "n_draws": self.n_draws,
            "recommended": self.recommended,
            "reasons": self.reasons,
            "warnings": self.warnings,
            "notes": self.notes,
            "certificate": self.certificate._asdict(),
            "table": self.table.to_dicts(),
            "support": self.support,
        }
        plain: dict[str, Any] = _plain(content)
        return plain

    def __str__(self) -> str:
        lines = [self.answer, "", as_text(self.table), "", self.certificate.statement]
        return "\n".join([*lines, *self._remarks()])

    def __repr__(self) -> str:
        return f"Selection(order={self.order!r}, score={self.score!r})"

    def _repr_html_(self) -> str:
        from html import escape

        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in self._remarks())
        return (
            f"<p><b>{escape(self.answer)}</b></p>{as_html(self.table)}"
            f"<p>{escape(self.certificate.statement)}</p>"
        ) + (f"<ul>{remarks}</ul>" if remarks else "")

    def _remarks(self) -> list[str]:
        return [f"Warning: {w}" for w in self.warnings] + [f"Note: {note}" for note in self.notes]


def select(
    belief: "xr.DataTree",
    score: Score,
    *,
    abstain: bool = True,
    max_evaluations: int | None = None,
    statistic: str = "value",
) -> Selection:
    """Rank the candidates so that the score's expected loss under the belief is lowest.

    Among rankings of equal expected loss the one wins that lists the policy of the higher
    posterior mean earlier, and for equal means the one whose name sorts first. The same belief
    and score always give the same ranking.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, dims chain (may be left out), draw, policy in any order, in reward
        per step, and names in the coordinate `policy`. Support information is used where there is
        any: attribute `support_warnings` (JSON list of `policy`, `reason`, `abstain`) and
        `constant_data` variables `moved_mass`, `lost_mass`, `effective_sample_size`.
    score : Score
        From `bayesdice_ppl.scores`.
    abstain : bool
        Whether a warning that is marked so takes the recommendation away. The ranking is
        computed and given in any case.
    max_evaluations : int, optional
        Most rankings to try; the score's own limit if left out (2,000,000; 50,000 for callables).
    statistic : str
        Which variable of `posterior` the values are: a belief of several statistics has each under
        its name, such as ``"cvar(0.1)"``.

    Returns
    -------
    Selection
        Order, expected loss, certificate and table.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names, or a value is NaN or infinite.
    ScoreError
        If the score does not fit the candidates, or there are too many rankings to try.
    SettingsError
        If `max_evaluations` is not a whole number of at least 1.
    """
    if not isinstance(score, Score):
        raise ScoreError(
            f"a score is needed, such as scores.regret(k=2), got {score!r}: wrap a function of "
            "your own in scores.custom"
        )
    whole = isinstance(max_evaluations, int) and not isinstance(max_evaluations, bool)
    if max_evaluations is not None and not (whole and max_evaluations >= 1):
        raise SettingsError(
            f"max_evaluations must be a whole number of at least 1, got {max_evaluations!r}"
        )
    draws = read_draws(belief, str(statistic))
    names, n_policies = draws.names, len(draws.names)
    support_warnings = read_warnings(belief, names)
    support = read_support(belief, names)
    score.check(n_policies)
    values = draws.values.reshape(-1, n_policies)
    mean = values.mean(axis=0)
    preference = sorted(range(n_policies), key=lambda i: (-mean[i], names[i]))

    found = search(values, score, np.array(preference), max_evaluations=max_evaluations)
    order = _completed(found.prefix, preference)
    runner_up = None if found.runner_up is None else _completed(found.runner_up, preference)
    if isinstance(score, Custom):
        score.check_depth(values, np.array(order))
    pair = np.array([order] if runner_up is None else [order, runner_up])
    losses = score.losses(values, pair).reshape(len(pair), *draws.values.shape[:2])

    depth = score.depth(n_policies)
    k = depth if score.k is None else score.k
    warned = support_warnings or []
    reasons = [warning.sentence for warning in warned if warning.abstain and abstain]
    return Selection(
        order=[names[i] for i in order],
        expected_loss=float(losses[0].mean()),
        loss_standard_error=standard_error(losses[0]),
        certificate=certify(
            names,
            losses[0],
            runner_up,
            None if runner_up is None else losses[1],
            evaluated=found.evaluated,
            head=depth,
            ordered=score.ordered,
        ),
        score=score.name,
        k=k,
        n_draws=len(values),
        table=summary_table(draws, order, k),
        recommended=not reasons,
        reasons=reasons,
        warnings=[warning.sentence for warning in warned],
        notes=_notes(support_warnings, support),
        support=support,
        statistic=read_statistic(belief, str(statistic)),
    )


def _completed(prefix: tuple[int, ...], preference: list[int]) -> list[int]:
    """Append the policies that a prefix leaves out, the preferred first."""
    return [*prefix, *(i for i in preference if i not in prefix)]


def _notes(warned: list[SupportWarning] | None, support: dict[str, dict[str, float]]) -> list[str]:
    """Say which support information the belief does not have."""
    notes = []
    if warned is None:
        notes.append(
            "the belief has no support warnings (attribute `support_warnings`): whether the logs "
            "cover these candidates was not checked"
        )
    unknown = [
        variable
        for variable in SUPPORT_VARIABLES
        if any(not math.isfinite(figures.get(variable, math.nan)) for figures in support.values())
    ]
    if unknown:
        notes.append(f"the belief does not give for every candidate: {', '.join(unknown)}")
    return notes


def _plain(content: Any) -> Any:
    """Turn tuples into lists and numbers that are not finite into None, all the way down."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
