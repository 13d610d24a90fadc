"""What the commands take: one frozen dataclass for each group of options.

`with_options` turns every field into an option, whose help is the field's entry in the docstring.
A field that is None is one whose default the library knows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from bayesdice_ppl.cli.texts import (
    read_actions,
    read_columns,
    read_costs,
    read_limits,
    read_list,
    read_numbers,
    read_place,
    read_weights,
)
from bayesdice_ppl.errors import SettingsError

if TYPE_CHECKING:
    from bayesdice_ppl.logs import Logs
    from bayesdice_ppl.policies import Policies
    from bayesdice_ppl.scores import Score

MAX_SEED = 2**32 - 1

Seed = Annotated[
    int | None,
    typer.Option(min=0, max=MAX_SEED, help="Random seed. Without one, a seed is drawn and shown."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the results that exist.")]
Statistic = Annotated[
    str | None, typer.Option(help="Which statistic ranks, if the belief has several.")
]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")]


def given(group: Any) -> dict[str, Any]:
    """The fields of a group that are not left to the library, by name."""
    return {name: value for name, value in vars(group).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Data.

    Attributes
    ----------
    logs
        Logged transitions: CSV, JSON lines, Parquet, another tool's log (docs/sources.md), or a
        table of a database, duckdb:///logs.duckdb?table=steps.
    columns
        Names of your columns, as ours=yours: action=item_id,reward=click.
    actions
        All actions, such as 0,1,2. Default: the actions in the table of candidates.
    ignore
        Columns that are not what their names say, such as done,t.
    reward
        The column of rewards, or several: quality,cost. The first is the value.
    layout
        Whose layout the log has, if it is not found: table, vw, rllib, minari, d4rl, d3rlpy, obp,
        open_bandit or scope_rl.
    """

    logs: Annotated[Any, typer.Argument(parser=read_place, metavar="LOGS")]
    columns: str | None = None
    actions: str | None = None
    ignore: str | None = None
    reward: str | None = None
    layout: str | None = None

    def read_logs(self) -> Logs:
        """Read the log, or count it where it lies."""
        from bayesdice_ppl.logs import read_logs

        return read_logs(
            self.logs,
            columns=read_columns(self.columns),
            actions=read_actions(self.actions),
            ignore=read_list("--ignore", self.ignore),
            reward=read_list("--reward", self.reward) or None,
            layout=self.layout,
        )


@final
@dataclass(frozen=True, kw_only=True)
class DataOptions(LogOptions):
    """Data.

    Attributes
    ----------
    policies
        Candidates: a table with the columns policy, state (or row), action, prob; a network in .npz
        or .onnx; a folder of these; or package.module:name, which is imported.
    """

    policies: Annotated[Path, typer.Option("-p", "--policies")]

    def read(self) -> tuple[Logs, Policies]:
        """Read the log and the candidates."""
        from bayesdice_ppl.policies import read_policies

        return self.read_logs(), read_policies(self.policies)

    @property
    def source(self) -> dict[str, str]:
        """Names of the files."""
        return {"logs": self.logs.name, "policies": self.policies.name}


@final
@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """Value.

    Attributes
    ----------
    gamma
        Discount in [0, 1]: 0 is a bandit, 1 is the average reward.
    on_termination
        What follows a termination: restart (default) is a new episode, absorb is reward 0 forever.
    """

    gamma: float
    on_termination: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """Score.

    Attributes
    ----------
    score
        What a good ranking is: regret, normalized_regret, precision, accuracy, correlation, ndcg,
        spearman, kendall, or safe_improvement (better than --baseline).
    top
        How many candidates go live.
    risk
        mean (default), or cvar(0.1): the mean loss over the worst tenth of the draws.
    baseline
        For safe_improvement: a candidate, or logged, the policy that wrote the log.
    xi
        For safe_improvement: the largest probability of being worse. Default: 0.05.
    """

    score: str = "regret"
    top: Annotated[int, typer.Option("-k", "--top")] = 1
    risk: str | None = None
    baseline: str | None = None
    xi: float | None = None

    def make(self) -> Score:
        """Make the score.

        Raises
        ------
        SettingsError
            There is no such score or risk, or an option does not belong to the score.
        """
        from bayesdice_ppl import risk
        from bayesdice_ppl.scores.catalog import by_name

        judged = None if self.risk is None else risk.read(self.risk, "--risk")
        return by_name(self.score, self.top, risk=judged, baseline=self.baseline, xi=self.xi)


@final
@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Rules of the launch.

    Attributes
    ----------
    costs
        Cost of each candidate: a=3,b=1.5, or a table with the columns policy, cost.
    budget
        The most that all launched candidates may cost together.
    must_include
        Candidates that must go live: a,b.
    must_exclude
        Candidates that must not go live: a,b.
    """

    costs: str | None = None
    budget: float | None = None
    must_include: str | None = None
    must_exclude: str | None = None

    def rules(self) -> dict[str, Any]:
        """What `bayesdice_ppl.select` takes.

        Raises
        ------
        SettingsError
            A text or a table cannot be read.
        """
        return {
            "costs": None if self.costs is None else read_costs(self.costs),
            "budget": self.budget,
            "must_include": read_list("--must-include", self.must_include),
            "must_exclude": read_list("--must-exclude", self.must_exclude),
        }


@final
@dataclass(frozen=True, kw_only=True)
class RewardOptions:
    """Several rewards.

    Attributes
    ----------
    weights
        What is ranked: a weight for each reward, such as quality=1,cost=-0.5. Default: the first.
    limits
        What a candidate must keep to, to go live: "cost<=0.02,quality>=0.7", in reward per step.
    confidence
        How probable that must be. Default: 0.9.
    """

    weights: str | None = None
    limits: str | None = None
    confidence: float | None = None

    def choice(self) -> dict[str, Any]:
        """What `bayesdice_ppl.select` takes.

        Raises
        ------
        SettingsError
            A text cannot be read.
        """
        from bayesdice_ppl.selection.limits import check_limits

        limits = None if self.limits is None else read_limits("--limits", self.limits)
        check_limits(limits, self.confidence)
        found: dict[str, Any] = {"limits": limits, "confidence": self.confidence}
        if self.weights is not None:
            found["statistic"] = read_weights("--weights", self.weights)
        return {name: each for name, each in found.items() if each is not None}

    def with_statistic(self, statistic: str | None) -> dict[str, Any]:
        """The same for a belief, of which one statistic may be named instead of weights.

        Raises
        ------
        SettingsError
            A text cannot be read, or there are weights and a statistic.
        """
        if statistic is not None and self.weights is not None:
            raise SettingsError("--weights: expected no --statistic beside it. Give one of them.")
        return {"statistic": statistic or "value", **self.choice()}

    def check(self, rewards: Sequence[str]) -> None:
        """Refuse names that are no rewards of a log, before the minutes of a fit.

        Raises
        ------
        SettingsError
            A weight or a limit is on something else.
        """
        choice = self.choice()
        for option, key in (("--weights", "statistic"), ("--limits", "limits")):
            for name in choice.get(key, ()):
                if name not in (*rewards, "value"):
                    raise SettingsError(
                        f"{option}: expected rewards of the log, {', '.join(rewards)}, found "
                        f"{name!r}. Name several with --reward quality,cost."
                    )


@final
@dataclass(frozen=True, kw_only=True)
class UnseenOptions:
    """Actions that the log does not have.

    Attributes
    ----------
    unseen_bounds
        Lowest and highest reward of a step, such as 0,1: choose what is best at worst within them.
        Default: what the belief says of such actions.
    """

    unseen_bounds: str | None = None

    def choice(self) -> dict[str, Any]:
        """What `bayesdice_ppl.select` takes.

        Raises
        ------
        SettingsError
            The text is not two numbers.
        """
        if self.unseen_bounds is None:
            return {}
        from bayesdice_ppl.selection.unseen_bounds import check_unseen

        bounds = read_numbers("--unseen-bounds", self.unseen_bounds)
        return {"unseen": "bounds", "bounds": check_unseen("bounds", bounds)}


@final
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """BayesDICE.

    Attributes
    ----------
    inference
        auto (default: the closed form where there is one, else laplace on vectors, else svi), svi,
        exact (the closed form), laplace (the closed form around the mode) or nuts.
    penalty
        mahalanobis (default, calibrated), squared (the paper's), power(p) or huber(c).
    surrogate
        markov (default, calibrated), cvar, bernstein or cdf.
    link
        identity (default), or softplus or exp: ratios are never negative.
    statistic
        What a value is: mean (default), cvar(0.1), quantile(0.1), variance or mean_variance(0.5) of
        the reward of a step. Of several, between commas, the first one ranks.
    cluster
        What is independent: transition, episode, or a column of the log, such as user_id; two that
        cross between a comma. Default: transitions for labels and episodes for vectors, and beyond
        them what the log shows.
    joint
        Whether the values of the candidates are correlated. Default: joint.
    small_sample
        Whether pairs that were logged a few times widen the belief. Default: yes.
    rewards
        What rewards can be on labels: binary (0 or 1), counts, or their bounds, such as 0,5.
    value_law
        Which quantiles values have on labels: skewed (default), student or empirical (empirical
        likelihood).
    preset
        paper: the form of the paper.
    include_logged
        Add the policy that wrote the log as a candidate named logged.
    """

    inference: str | None = None
    penalty: str | None = None
    surrogate: str | None = None
    link: str | None = None
    statistic: str | None = None
    cluster: str | None = None
    joint: Annotated[bool | None, typer.Option("--joint/--independent")] = None
    small_sample: bool | None = None
    rewards: str | None = None
    value_law: str | None = None
    preset: str | None = None
    include_logged: Annotated[bool, typer.Option("--include-logged")] = False

    def settings(self, question: ValueOptions, draws: int | None) -> dict[str, Any]:
        """What `bayesdice_ppl.fitting.fit_flat` takes."""
        settings = {**given(question), **given(self)}
        if self.cluster is not None:
            settings["cluster"] = read_list("--cluster", self.cluster)
        if self.rewards is not None and "," in self.rewards:
            settings["rewards"] = read_numbers("--rewards", self.rewards)
        if self.statistic is not None:
            settings["statistic"] = read_list("--statistic", self.statistic)
        return settings if draws is None else {**settings, "draws": draws}

    def with_baseline(self, judge: ScoreOptions) -> ModelOptions:
        """Add the policy that wrote the log where it is the baseline."""
        return (
            dataclasses.replace(self, include_logged=True) if judge.baseline == "logged" else self
        )


Draws = Annotated[
    int | None,
    typer.Option(min=2, max=1_000_000, help="Number of posterior draws. Default: 4,000."),
]
