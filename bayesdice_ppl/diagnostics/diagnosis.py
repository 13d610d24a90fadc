"""What to believe of a belief, and what not: a list of checks, each with a sentence.

Support comes from the fit itself; the chance constraint, the range of the rewards and the ELBO
from the belief's own groups; with the logs at hand, the logging policy is fitted as if it were a
candidate and held against what the logs themselves earned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from bayesdice_ppl.belief import SupportWarning, belief_settings, read_array
from bayesdice_ppl.constraint.penalties import penalty_choice
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy, TabularPolicy, action_frequencies

if TYPE_CHECKING:
    import polars as pl
    from xarray import DataTree

OUTSIDE_WARN = 0.01
"""Posterior mass outside the range of the logged rewards."""
AGREEMENT_WARN = 2.0
"""Distance of the self-check, in standard errors of the logs' own value."""
MEAN_WARN, SD_WARN = 0.1, 0.1
"""How far SVI may be from the closed form: of a posterior sd, and relative."""
TAIL_MAX = 0.2
"""Unseen discounted weight past which the logs' own value is no anchor."""


class Check(NamedTuple):
    """One check: what it is about, whether it passed (None: could not be made), and a sentence."""

    name: str
    passed: bool | None
    message: str


@final
@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks of a belief.

    Attributes
    ----------
    checks
        In the order in which they were made.
    """

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def table(self) -> pl.DataFrame:
        """The checks as a polars frame: check, passed, message."""
        import polars as pl

        return pl.DataFrame(
            {
                "check": [check.name for check in self.checks],
                "passed": [check.passed for check in self.checks],
                "message": [check.message for check in self.checks],
            },
            schema={"check": pl.String, "passed": pl.Boolean, "message": pl.String},
        )

    def __str__(self) -> str:
        marks = {True: "ok     ", False: "WARNING", None: "unknown"}
        return "\n".join(f"{marks[c.passed]} {c.name}: {c.message}" for c in self.checks)


def diagnose(
    belief: DataTree,
    logs: Logs | None = None,
    policies: Mapping[str, Policy | ContinuousPolicy] | None = None,
) -> Diagnosis:
    """Check a belief.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`.
    logs
        The logs it was fitted on: adds the self-check against what they earned.
    policies
        The candidates: with the logs, adds the comparison of SVI with its closed form.

    Returns
    -------
    Diagnosis
        Print it, or look at ``.table``.

    Raises
    ------
    BeliefError
        The belief was not made by `fit`.
    """
    if "posterior" not in belief.children or "settings" not in belief.attrs:
        raise BeliefError("expected a belief from bayesdice_ppl.fit, found another DataTree.")
    checks = [
        *_support(belief),
        _constraint(belief),
        _range(belief),
        *_elbo(belief),
        *_regularization(belief),
    ]
    if logs is not None:
        checks.append(_self_check(belief, logs))
        if policies is not None and belief_settings(belief).get("inference") == "svi":
            checks.append(_against_exact(belief, logs, policies))
    return Diagnosis(tuple(checks))


def _names(belief: DataTree) -> list[str]:
    return [str(name) for name in read_array(belief, "posterior/policy")]


def _support(belief: DataTree) -> list[Check]:
    found = [SupportWarning(**entry) for entry in json.loads(belief.attrs["support_warnings"])]
    if not found:
        return [Check("support", True, "the log covers every candidate.")]
    return [Check("support", False, warning.sentence) for warning in found]


def _constraint(belief: DataTree) -> Check:
    achieved = read_array(belief, "constant_data/constraint_probability")
    xi = belief_settings(belief)["xi"]
    worst = int(np.argmin(achieved))
    name = _names(belief)[worst]
    return Check(
        "chance constraint",
        None,
        f"P(ell <= epsilon) is {achieved.min():.2f} to {achieved.max():.2f} (least: {name}); it "
        f"was priced at xi = {xi:g}, not enforced.",
    )


def _range(belief: DataTree) -> Check:
    statistic = belief_settings(belief).get("statistic", ["mean"])[0]
    if statistic.partition("(")[0] not in ("mean", "cvar", "quantile") or statistic[:5] == "mean(":
        return Check("range", None, f"{statistic} is not in units of the reward.")
    value = read_array(belief, "posterior/value")
    reward = read_array(belief, "observed_data/reward")
    low, high = float(reward.min()), float(reward.max())
    if belief_settings(belief)["on_termination"] == "absorb":
        low, high = min(low, 0.0), max(high, 0.0)
    outside = ((value < low) | (value > high)).mean(axis=(0, 1))
    worst = int(np.argmax(outside))
    name = _names(belief)[worst]
    return Check(
        "range",
        bool(outside.max() <= OUTSIDE_WARN),
        f"at most {outside.max():.1%} of the belief ({name}) lies outside the rewards' range "
        f"[{low:g}, {high:g}].",
    )


def _elbo(belief: DataTree) -> list[Check]:
    if "fit_data" not in belief.children:
        return []
    elbo = read_array(belief, "fit_data/elbo")
    # The rate is nearly zero by then, and what is left of the last window's start is small.
    part = max(elbo.shape[1] // 40, 1)
    last, before = elbo[:, -part:], elbo[:, -2 * part : -part]
    if not np.isfinite(last).all():
        return [Check("convergence", False, "the ELBO is not finite at the end; fit again.")]
    rise = np.abs(last.mean(axis=1) - before.mean(axis=1))
    worst = int(np.argmax(rise))
    name = _names(belief)[worst]
    return [
        Check(
            "convergence",
            bool(rise.max() <= 0.1),
            f"over its last steps the ELBO moved by at most {rise.max():.2g} nats ({name}).",
        )
    ]


def _regularization(belief: DataTree) -> list[Check]:
    """What was chosen by held-out loss, and among how many that are as good."""
    rows = json.loads(belief.attrs.get("regularization", "[]"))
    if not rows:
        return []
    best = next(row for row in rows if row["chosen"])
    ties = sum(row["tie"] for row in rows) - 1
    return [
        Check(
            "regularization",
            None,
            f"of {len(rows)} choices {best['features']} with prior_sd {best['prior_sd']:g} had the "
            f"least held-out loss ({best['held_out_loss']:.3g}); {ties} others are within 2 "
            "standard errors of it.",
        )
    ]


def _self_check(belief: DataTree, logs: Logs) -> Check:
    """Hold the value of the logging policy, fitted if the belief lacks it, against the returns."""
    if logs.vector_states or logs.vector_actions or not _is_tabular(belief):
        return Check(
            "self-check",
            None,
            "which policy wrote the log is not known between its vectors; give it as a candidate, "
            f"and hold its value against the logs' own {float(belief.attrs['logged_value']):.4g}.",
        )
    mean = _logging_mean(belief, logs)
    earned = float(belief.attrs["logged_value"])
    error = float(belief.attrs["logged_value_standard_error"])
    tail = float(belief.attrs["logged_value_tail"])
    message = (
        f"the logging policy, fitted as a candidate, is worth {mean:.4g}; the logs earned "
        f"{earned:.4g} (standard error {error:.2g}"
    )
    if not error > 0.0:
        return Check("self-check", None, f"{message}), from which nothing can be told.")
    if tail > TAIL_MAX:
        return Check(
            "self-check",
            None,
            f"{message}), but episodes are too short to tell: {tail:.0%} of the discounted weight "
            "was not seen.",
        )
    distance = abs(mean - earned) / error
    return Check(
        "self-check",
        bool(distance <= AGREEMENT_WARN),
        f"{message}; {distance:.1f} of them apart, {tail:.0%} of the discounted weight not seen).",
    )


def _logging_mean(belief: DataTree, logs: Logs) -> float:
    """Posterior mean of the logging policy's mean reward: the belief's, or that of a fit."""
    logged = belief.attrs.get("logged_policy")
    if logged is not None and belief_settings(belief).get("statistic", ["mean"])[0] == "mean":
        place = _names(belief).index(str(logged))
        return float(read_array(belief, "constant_data/guide_mean")[place])
    shape = (len(logs.state_labels), len(logs.action_labels))
    table = action_frequencies(logs.state, logs.action, shape)
    table[table.sum(axis=1) == 0.0] = 1.0 / shape[1]  # where it was never seen to act
    behavior = TabularPolicy(table, logs.state_labels, logs.action_labels)
    refit = _refit(belief, logs, {"behavior": behavior})
    return float(read_array(refit, "constant_data/guide_mean")[0])


def _against_exact(
    belief: DataTree, logs: Logs, policies: Mapping[str, Policy | ContinuousPolicy]
) -> Check:
    if belief_settings(belief).get("statistic", ["mean"])[0] != "mean":
        return Check(
            "svi against closed form", None, "made for the mean only; fit again with 'exact'."
        )
    if not _is_tabular(belief):
        return Check(
            "svi against closed form",
            None,
            "the features are not kept with the belief; fit again with inference='exact'.",
        )
    if not _has_closed_form(belief):
        return Check(
            "svi against closed form",
            None,
            "this penalty, surrogate or link has none; hold it against inference='nuts'.",
        )
    exact = _refit(belief, logs, policies)
    sd = read_array(exact, "constant_data/guide_sd")
    mean = read_array(exact, "constant_data/guide_mean")
    safe = np.where(sd > 0, sd, 1.0)
    shift = np.abs(read_array(belief, "constant_data/guide_mean") - mean) / safe
    scale = np.abs(read_array(belief, "constant_data/guide_sd") - sd) / safe
    return Check(
        "svi against closed form",
        bool(shift.max() <= MEAN_WARN and scale.max() <= SD_WARN),
        f"means differ by at most {shift.max():.3f} posterior sd, sds by {scale.max():.1%}.",
    )


def _refit(
    belief: DataTree, logs: Logs, policies: Mapping[str, Policy | ContinuousPolicy]
) -> DataTree:
    import jax

    from bayesdice_ppl.fitting import fit_flat

    settings: dict[str, Any] = belief_settings(belief)
    skipped = ("inference", "svi", "nuts", "draws", "preset", "features", "statistic", "model")
    kept = {name: value for name, value in settings.items() if name not in skipped}
    if kept.get("normalization"):
        from bayesdice_ppl.inference import Normalization

        kept["normalization"] = Normalization(**kept["normalization"])
    engine = "exact" if _has_closed_form(belief) else "svi"
    # The closed form is not drawn at random; the few draws that `fit` makes are not used.
    return fit_flat(logs, policies, rng_key=jax.random.key(0), inference=engine, draws=2, **kept)


def _is_tabular(belief: DataTree) -> bool:
    return bool(belief_settings(belief).get("features", "one_hot()") == "one_hot()")


def _has_closed_form(belief: DataTree) -> bool:
    settings = belief_settings(belief)
    return (
        penalty_choice(settings["penalty"]).quadratic
        and settings.get("surrogate", "markov") == "markov"
        and settings.get("link", "identity") == "identity"
    )
