"""From a belief and a score to a ranking, with the evidence that goes with it.

The ranking minimizes the score's expected loss under the belief (Yang et al., Offline Policy
Selection under Uncertainty, section 2.3). It comes with its Monte Carlo error, a certificate, a
table of what is believed of each candidate, and what the logs cannot tell: where that is too
much, the order is still given and no recommendation is made.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import (
    SUPPORT,
    SupportWarning,
    read_statistic,
    read_support,
    read_values,
    read_warnings,
)
from bayesdice_ppl.errors import ScoreError, SettingsError
from bayesdice_ppl.losses import Custom, NormalizedRegret, Regret, SafeImprovement
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection.certificate import Certificate, Judged, certify, judge
from bayesdice_ppl.selection.rules import check_choice, check_rules, keep_admissible
from bayesdice_ppl.selection.solvers.solving import solve
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
    launch : list of str
        Those of them that go live: the first k, or fewer where a budget or the score's own
        condition allows no more; none for a score of the whole ranking.
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
        False if the logs support some candidate too thinly for the ranking to be acted on.
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
        What is made of the losses over draws: `"mean"`, or such as `"cvar(0.1)"`.
    baseline : str or None
        The policy that a safe improvement is held against.
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

    @property
    def answer(self) -> str:
        """One sentence that says which candidates to try, or that none is recommended, and why."""
        leading = self.launch or self.order
        head = ", ".join(leading[:_LISTED]) + (", ..." if len(leading) > _LISTED else "")
        expected = "expected " if self.risk == "mean" else ""
        numbers = f"{expected}{self.score} loss {self.expected_loss:.3g}"
        inside = f"Monte Carlo error {self.loss_standard_error:.2g}"
        if self.normalized_loss is not None:
            inside += f"; normalized by the range of the values, {self.normalized_loss:.2%}"
        numbers += f" ({inside})"
        if self.recommended and self.launch == [self.baseline]:
            return f"Keep {head}, as no other policy is surely enough an improvement: {numbers}."
        if self.recommended:
            return f"{'Try' if self.launch else 'Ranked'} {head}: {numbers}."
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
            "launch": self.launch,
            "expected_loss": self.expected_loss,
            "normalized_loss": self.normalized_loss,
            "loss_standard_error": self.loss_standard_error,
            "score": self.score,
            "statistic": self.statistic,
            "risk": self.risk,
            "baseline": self.baseline,
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
    costs: Mapping[str, float] | None = None,
    budget: float | None = None,
    must_include: Collection[str] = (),
    must_exclude: Collection[str] = (),
) -> Selection:
    """Rank the candidates so that the score's expected loss under the belief is lowest.

    Where there are few rankings all of them are tried. Beyond, the mean loss of precision,
    accuracy, ndcg, spearman and the regrets is minimized exactly or with a proven gap, Kendall's
    with a bound, and the rest is searched: the certificate says which. Among rankings of equal
    expected loss the one wins that lists the policy of the higher posterior mean earlier, and for
    equal means the one whose name sorts first, wherever all are tried or sorted. The same belief
    and score always give the same ranking.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, dims chain (may be left out), draw, policy in any order, in reward
        per step, and names in the coordinate `policy`. Support information is used where there is
        any: attribute `support_warnings` (JSON list of `policy`, `reason`, `abstain`) and
        `constant_data` variables `moved_mass`, `lost_mass`, `effective_sample_size`,
        `negative_mass`.
    score : Score
        From `bayesdice_ppl.scores`.
    abstain : bool
        Whether a warning that is marked so takes the recommendation away. The ranking is
        computed and given in any case.
    max_evaluations : int, optional
        Most rankings to try one by one: all of them if there are no more, else as many as a
        search may. By default 50,000; for correlation@k all are tried up to 2,000,000.
    statistic : str
        Which variable of `posterior` the values are: a belief of several statistics has each under
        its name, such as ``"cvar(0.1)"``.
    costs, budget : mapping of str to float, and float, optional
        What launching each candidate costs, and what the launch may cost in all, in one unit. Of
        at most k candidates as many go live as the budget affords and the loss asks for; for
        correlation@k and callables exactly k.
    must_include, must_exclude : collection of str
        Candidates that have to be among those that go live, and that must not be. The loss is
        still held against all: a candidate that is excluded may be the best.

    Returns
    -------
    Selection
        Order, launch, expected loss, certificate and table.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names, or a value is NaN or infinite.
    ScoreError
        If the score does not fit the candidates or names one that the belief does not have.
    SettingsError
        If `max_evaluations` is not a whole number of at least 1, or no launch meets the rules.
    """
    if not isinstance(score, Score):
        raise ScoreError(
            f"a score is needed, such as scores.regret(k=2), got {score!r}: wrap a function of "
            "your own in scores.custom"
        )
    whole = isinstance(max_evaluations, int | np.integer) and not isinstance(max_evaluations, bool)
    if max_evaluations is not None and not (whole and max_evaluations >= 1):
        raise SettingsError(
            f"max_evaluations must be a whole number of at least 1, got {max_evaluations!r}"
        )
    draws = read_values(belief, str(statistic))
    names, n_policies = draws.names, len(draws.names)
    support_warnings = read_warnings(belief, names)
    support = read_support(belief, names)
    values = draws.values.reshape(-1, n_policies)
    score, rules = check_choice(
        score,
        names,
        costs=costs,
        budget=budget,
        must_include=must_include,
        must_exclude=must_exclude,
    )
    asked = not rules.free
    rules = keep_admissible(rules, score, values, names)
    check_rules(rules, score, names)
    mean = values.mean(axis=0)
    preference = sorted(range(n_policies), key=lambda i: (-mean[i], names[i]))

    columns = np.array(preference)
    found = solve(
        np.ascontiguousarray(values[:, columns]),
        score.permuted(preference),
        rules.permuted(columns),
        max_evaluations=max_evaluations,
    )
    prefix = [preference[i] for i in found.prefix]
    second = None if found.runner_up is None else [preference[i] for i in found.runner_up]
    order = _completed(prefix, preference)
    runner_up = None if second is None else _completed(second, preference)
    if isinstance(score, Custom):
        score.check_depth(values, np.array(order))
    own, other = _judged(score, draws.values, prefix, second)
    launched = score.launches(n_policies)
    depth = score.depth(n_policies)
    k = depth if score.k is None else score.k
    warned = support_warnings or []
    reasons = [warning.sentence for warning in warned if warning.abstain and abstain]
    return Selection(
        order=[names[i] for i in order],
        launch=[] if launched is None else [names[i] for i in prefix[:launched]],
        expected_loss=own.risk,
        normalized_loss=_normalized(score, values, prefix),
        loss_standard_error=own.standard_error,
        certificate=certify(
            names,
            score,
            found,
            own,
            other,
            runner_up,
            scale=_single_regret(score, values),
            restricted=not rules.free,
        ),
        score=score.name,
        k=k,
        n_draws=len(values),
        table=summary_table(draws, order, k, len(prefix[:launched]) if launched else 0),
        recommended=not reasons,
        reasons=reasons,
        warnings=[warning.sentence for warning in warned],
        notes=[
            *_notes(support_warnings, support),
            *_notes_on_launch(score, values, names, prefix, asked=asked),
        ],
        support=support,
        statistic=read_statistic(belief, str(statistic)),
        risk=score.risk.name,
        baseline=score.baseline if isinstance(score, SafeImprovement) else None,
    )


def _judged(
    score: Score,
    values: Float[np.ndarray, "chain draw N"],
    prefix: list[int],
    second: list[int] | None,
) -> tuple[Judged, Judged | None]:
    """Take the losses of the ranking and of its runner-up, from one digest where they are alike."""
    flat = values.reshape(-1, values.shape[-1])
    if second is not None and len(second) == len(prefix):
        both = score.losses(flat, np.array([prefix, second]), fewer=True)
    else:
        rows = [prefix] if second is None else [prefix, second]
        both = np.concatenate([score.losses(flat, np.array([row]), fewer=True) for row in rows])
    judged = [judge(score, losses.reshape(values.shape[:2])) for losses in both]
    return judged[0], judged[1] if len(judged) > 1 else None


def _completed(prefix: list[int], preference: list[int]) -> list[int]:
    """Append the policies that a prefix leaves out, the preferred first."""
    listed = set(prefix)
    return [*prefix, *(i for i in preference if i not in listed)]


def _normalized(score: Score, values: np.ndarray, prefix: list[int]) -> float | None:
    """Give the regret over the range of the draw, of a score that is a regret."""
    if not isinstance(score, Regret | SafeImprovement):
        return None
    beside = NormalizedRegret(score.k, score.risk)
    losses = beside.losses(values, np.array([prefix]), fewer=True)
    return float(score.risk.of(losses)[0])


def _single_regret(score: Score, values: np.ndarray) -> float | None:
    """Give E[max] - max E[value] in units of the loss, of a score that covers the draws."""
    if not (score.averaged and isinstance(score, Regret | NormalizedRegret | SafeImprovement)):
        return None
    seen = score.structure(values).values
    return float(seen.max(axis=1).mean() - seen.mean(axis=0).max())


def _notes_on_launch(
    score: Score, values: np.ndarray, names: tuple[str, ...], prefix: list[int], *, asked: bool
) -> list[str]:
    """Say how the baseline fared, and that fewer than k go live where that is so."""
    notes = []
    if isinstance(score, SafeImprovement) and score.place_of_baseline is not None:
        safe = score.admissible(values)
        others = 0 if safe is None else int(safe.sum()) - 1
        baseline = values[:, score.place_of_baseline]
        notes.append(
            f"{others} of {len(names) - 1} other policies are worse than {score.baseline} with a "
            f"probability below {score.xi:g}"
        )
        for i in prefix:
            if i != score.place_of_baseline:
                gain, worse = (values[:, i] - baseline).mean(), (values[:, i] < baseline).mean()
                notes.append(
                    f"{names[i]} is worth {gain:.4g} more than {score.baseline} on average and is "
                    f"worse with a probability of {worse:.3g}"
                )
    if score.k is not None and len(prefix) < score.k:
        why = "the rules afford or allow no more" if asked else "no more are allowed by the score"
        notes.append(f"{len(prefix)} of {score.k} places are filled: {why}")
    return notes


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
        for variable in SUPPORT
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
