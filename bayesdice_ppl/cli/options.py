"""What the command line takes: options with their help, and texts that become values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesdice_ppl.errors import SettingsError

if TYPE_CHECKING:
    from bayesdice_ppl.risk import Risk
    from bayesdice_ppl.scores import Score

MAX_SEED = 2**32 - 1
SCORES = ("regret", "normalized_regret", "precision", "accuracy", "correlation", "ndcg")
WHOLE_RANKING = ("spearman", "kendall")
SAFE = "safe_improvement"

LogsArgument = Annotated[Path, typer.Argument(help="Logged transitions, CSV or Parquet.")]
PoliciesOption = Annotated[
    Path, typer.Option("--policies", "-p", help="Candidates: policy, state, action, prob.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(help="Our columns = yours, e.g. action=item_id,state=position,reward=click."),
]
ActionsOption = Annotated[
    str | None,
    typer.Option(help="The action space, e.g. 0,1,2; by default the candidates' actions."),
]
GammaOption = Annotated[
    float, typer.Option(help="Discount in [0, 1]: 0 is a bandit, 1 the average reward.")
]
SeedOption = Annotated[
    int | None,
    typer.Option(min=0, max=MAX_SEED, help="Seed; a fresh one is drawn and printed if missing."),
]
ScoreOption = Annotated[
    str,
    typer.Option(
        help=f"What to be good at: {', '.join((*SCORES, *WHOLE_RANKING))}; or {SAFE}: better than "
        "--baseline, and worse with a probability below --xi."
    ),
]
RiskOption = Annotated[
    str | None,
    typer.Option(help="mean, or cvar(0.1): judge by the worst tenth of the belief's draws."),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(help=f"For {SAFE}: a candidate, or logged, the policy that logged."),
]
XiOption = Annotated[
    float | None, typer.Option(help=f"For {SAFE}: most probability of being worse (0.05).")
]
CostsOption = Annotated[
    str | None,
    typer.Option(help="What each launch costs: a=3,b=1.5, or a table policy, cost (CSV, Parquet)."),
]
BudgetOption = Annotated[float | None, typer.Option(help="What all launches may cost together.")]
IncludeOption = Annotated[
    str | None, typer.Option("--must-include", help="Candidates that have to go live: a,b.")
]
ExcludeOption = Annotated[
    str | None, typer.Option("--must-exclude", help="Candidates that must not go live: a,b.")
]
LoggedOption = Annotated[
    bool,
    typer.Option("--include-logged", help="Add the policy that logged, named logged."),
]
TopOption = Annotated[int, typer.Option("-k", "--top", help="How many can go live.")]
FolderOption = Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
InferenceOption = Annotated[str, typer.Option(help="svi, exact (its closed form), or nuts.")]
PenaltyOption = Annotated[
    str | None,
    typer.Option(help="mahalanobis (calibrated), squared (the paper's), power(p), huber(c)."),
]
SurrogateOption = Annotated[
    str | None, typer.Option(help="markov (calibrated), cvar, bernstein or cdf; cvar(t), ...")
]
LinkOption = Annotated[
    str | None, typer.Option(help="identity, or softplus (ratios are never negative).")
]
TerminationOption = Annotated[
    str, typer.Option(help="After a termination: restart, or absorb (reward 0 for ever).")
]
ClusterOption = Annotated[str, typer.Option(help="Independent unit: transition or episode.")]
JointOption = Annotated[
    bool | None,
    typer.Option("--joint/--independent", help="Whether values move together.", show_default=False),
]
SmallSampleOption = Annotated[
    bool | None,
    typer.Option(
        "--small-sample/--no-small-sample", help="Widen for rare pairs.", show_default=False
    ),
]
StatisticOption = Annotated[
    str | None,
    typer.Option(
        help="What a value is: mean, cvar(0.1), quantile(0.1), variance, mean_variance(0.5) of "
        "the reward of a step; of several, between commas, the first."
    ),
]
PresetOption = Annotated[str | None, typer.Option(help="paper: the paper's own form.")]
DrawsOption = Annotated[int, typer.Option(min=2, max=1_000_000, help="Number of posterior draws.")]


def make_score(
    name: str,
    k: int,
    *,
    risk: str | None = None,
    baseline: str | None = None,
    xi: float | None = None,
) -> Score:
    """A built-in score by name.

    Raises
    ------
    SettingsError
        There is no such score, or an option does not belong to it.
    """
    from bayesdice_ppl import scores

    name = name.replace("-", "_")
    if name not in (*SCORES, *WHOLE_RANKING, SAFE):
        known = ", ".join((*SCORES, *WHOLE_RANKING, SAFE))
        raise SettingsError(f"--score: expected one of {known}, found {name!r}.")
    if name != SAFE and not (baseline is None and xi is None):
        raise SettingsError(f"--baseline and --xi belong to --score {SAFE}, found {name!r}.")
    judged = parse_risk(risk)
    if name == SAFE:
        if baseline is None:
            raise SettingsError(f"--score {SAFE} needs --baseline: a candidate's name, or logged.")
        return scores.safe_improvement(baseline, xi=0.05 if xi is None else xi, k=k, risk=judged)
    score: Score = (
        getattr(scores, name)(risk=judged)
        if name in WHOLE_RANKING
        else getattr(scores, name)(k, risk=judged)
    )
    return score


def parse_risk(text: str | None) -> Risk:
    """A risk from ``mean`` or ``cvar(0.1)``.

    Raises
    ------
    SettingsError
        It is neither.
    """
    from bayesdice_ppl import risk

    if text is None or text == "mean":
        return risk.mean()
    match = re.fullmatch(r"cvar\(\s*([0-9.eE+-]+)\s*\)", text.strip())
    try:
        alpha = float(match.group(1)) if match else None
    except ValueError:
        alpha = None
    if alpha is None:
        raise SettingsError(f"--risk: expected mean or cvar(0.1), found {text!r}.")
    return risk.cvar(alpha)


def make_launch(
    costs: str | None, budget: float | None, must_include: str | None, must_exclude: str | None
) -> dict[str, Any]:
    """What `bayesdice_ppl.select` takes of the rules of a launch.

    Raises
    ------
    SettingsError
        A text or a table cannot be read.
    """
    return {
        "costs": None if costs is None else parse_costs(costs),
        "budget": budget,
        "must_include": _names(must_include, "--must-include"),
        "must_exclude": _names(must_exclude, "--must-exclude"),
    }


def _names(text: str | None, option: str) -> list[str]:
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise SettingsError(f"{option}: expected names between commas, found {text!r}.")
    return names


def parse_costs(text: str) -> dict[str, float]:
    """Costs from ``a=3,b=1.5``, or from a table with the columns policy and cost.

    Raises
    ------
    SettingsError
        An entry is no pair, a cost is no number, or a name is given twice.
    """
    if text.lower().endswith((".csv", ".parquet")):
        pairs = _cost_table(Path(text))
    else:
        pairs = []
        for entry in text.split(","):
            name, equals, cost = (part.strip() for part in entry.rpartition("="))
            if not (name and equals and cost):
                raise SettingsError(f"--costs: expected name=cost,name=cost, found {entry!r}.")
            pairs.append((name, cost))
    costs: dict[str, float] = {}
    for name, cost in pairs:
        if name in costs:
            raise SettingsError(f"--costs: {name!r} is given twice.")
        try:
            costs[name] = float(cost)
        except (TypeError, ValueError):
            raise SettingsError(
                f"--costs: the cost of {name!r} must be a number, found {cost!r}."
            ) from None
    return costs


def _cost_table(path: Path) -> list[tuple[str, Any]]:
    import polars as pl

    try:
        table = (
            pl.read_csv(path, schema_overrides={"policy": pl.String})  # 01 is a name, not 1
            if path.suffix.lower() == ".csv"
            else pl.read_parquet(path)
        )
    except (OSError, pl.exceptions.PolarsError) as cause:
        raise SettingsError(f"--costs: {path} cannot be read: {cause}") from cause
    missing = {"policy", "cost"} - set(table.columns)
    if missing:
        raise SettingsError(
            f"--costs: {path} needs the columns policy and cost, found {', '.join(table.columns)}."
        )
    return [(str(name), cost) for name, cost in table.select("policy", "cost").iter_rows()]


def parse_columns(text: str | None) -> dict[str, str] | None:
    """Column mapping from ``action=item_id,state=position``.

    Raises
    ------
    SettingsError
        An entry is no pair, or a name is given twice.
    """
    if text is None:
        return None
    mapping: dict[str, str] = {}
    for entry in text.split(","):
        ours, equals, theirs = (part.strip() for part in entry.partition("="))
        if not (ours and equals and theirs):
            raise SettingsError(
                f"--columns: expected ours=yours,ours=yours (action=item_id), found {entry!r}."
            )
        if ours in mapping:
            raise SettingsError(f"--columns: {ours!r} is given twice.")
        mapping[ours] = theirs
    return mapping


def parse_actions(text: str | None) -> list[Any] | None:
    """Action space from ``0,1,2`` (integers if all of them are) or ``buy,hold,sell``.

    Raises
    ------
    SettingsError
        An entry is empty.
    """
    if text is None:
        return None
    labels = [label.strip() for label in text.split(",")]
    if not all(labels):
        raise SettingsError(f"--actions: expected labels between commas, found {text!r}.")
    try:
        return [int(label) for label in labels]
    except ValueError:
        return labels


def parse_statistics(text: str | None) -> list[str] | None:
    """Statistics from ``cvar(0.1),mean``, or None."""
    return None if text is None else [part.strip() for part in text.split(",")]
