"""The command that writes a belief and its ranking on one HTML page: `bayesdice_ppl.report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesdice_ppl.cli.app import EXIT_NO_RECOMMENDATION, app
from bayesdice_ppl.cli.groups import (
    LaunchOptions,
    Overwrite,
    RewardOptions,
    ScoreOptions,
    Statistic,
    UnseenOptions,
)
from bayesdice_ppl.cli.options import with_options
from bayesdice_ppl.cli.results import RANKING_FILE

if TYPE_CHECKING:
    from bayesdice_ppl.selection import Selection


@app.command()
@with_options
def report(
    belief: Annotated[Path, typer.Argument(help="A belief, from `bayesdice fit` or `select`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page, an .html file.")],
    judge: ScoreOptions,
    launch: LaunchOptions,
    several: RewardOptions,
    unseen: UnseenOptions,
    statistic: Statistic = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a belief and its ranking on one HTML page that needs no network.

    Exit codes: 0 done; 2 bad input; 3 done, but the log says too little for a recommendation.
    """
    from bayesdice_ppl.belief import load_belief
    from bayesdice_ppl.cli.console import make_console, show_answer
    from bayesdice_ppl.outputs import check_file
    from bayesdice_ppl.reporting import report as make_report

    score, rules = judge.make(), launch.rules()
    within = unseen.choice() | several.with_statistic(statistic)
    check_file(output, overwrite=overwrite, inputs=(belief,))
    page = make_report(load_belief(belief), score, source=belief.name, **rules, **within)
    page.save(output, overwrite=overwrite)
    console = make_console()
    show_answer(console, page.selection)
    for note in other_question(belief, page.selection):
        console.print(f"Note: {note}", markup=False)
    console.print(f"Wrote {output}.", markup=False, soft_wrap=True)
    raise typer.Exit(0 if page.selection.recommended else EXIT_NO_RECOMMENDATION)


def other_question(belief: Path, selection: Selection) -> list[str]:
    """Say that the ranking beside a belief, as `select` writes it, answers another question."""
    ranking = belief.parent / RANKING_FILE
    try:
        known = json.loads(ranking.read_text(encoding="utf-8"))
        score, launch = known["score"], known["launch"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    if (score, launch) == (selection.score, selection.launch):
        return []
    return [
        f"{ranking.name} beside it has a ranking by {score} that launches "
        f"{', '.join(map(str, launch)) if launch else 'none'}. This report is by "
        f"{selection.score}: give it the options that select had, if it is to say the same."
    ]
