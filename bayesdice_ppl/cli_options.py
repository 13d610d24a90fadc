"""What the command line takes: options with their help, and texts that become values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesdice_ppl.errors import SettingsError

if TYPE_CHECKING:
    from bayesdice_ppl.scores import Score

MAX_SEED = 2**32 - 1
SCORES = ("regret", "precision", "accuracy", "correlation")

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
ScoreOption = Annotated[str, typer.Option(help=f"What to be good at: {', '.join(SCORES)}.")]
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


def make_score(name: str, k: int) -> Score:
    """A built-in score by name.

    Raises
    ------
    SettingsError
        There is no such score.
    """
    from bayesdice_ppl import scores

    if name not in SCORES:
        raise SettingsError(f"--score: expected one of {', '.join(SCORES)}, found {name!r}.")
    score: Score = getattr(scores, name)(k)
    return score


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
