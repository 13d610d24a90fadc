"""The commands about beliefs: fit one, rank it, or both at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bayesdice_ppl.cli.app import EXIT_NO_RECOMMENDATION, app
from bayesdice_ppl.cli.groups import (
    DataOptions,
    Draws,
    LaunchOptions,
    ModelOptions,
    Output,
    Overwrite,
    RewardOptions,
    ScoreOptions,
    Seed,
    Statistic,
    UnseenOptions,
    ValueOptions,
    given,
)
from bayesdice_ppl.cli.methods import MethodOptions
from bayesdice_ppl.cli.options import with_options
from bayesdice_ppl.cli.results import (
    draw_belief,
    fit_belief,
    ranking_content,
    write_estimates,
    write_selection,
)
from bayesdice_ppl.errors import SettingsError


@app.command()
@with_options
def select(
    context: typer.Context,
    data: DataOptions,
    question: ValueOptions,
    output: Output,
    judge: ScoreOptions,
    launch: LaunchOptions,
    several: RewardOptions,
    unseen: UnseenOptions,
    model: ModelOptions,
    method: MethodOptions,
    seed: Seed = None,
    draws: Draws = None,
    overwrite: Overwrite = False,
) -> None:
    """Fit a belief and rank the candidates. Writes belief.nc, ranking.json and forest.png.

    Methods without a belief write ranking.json, estimates.csv and estimates.png.
    """
    from bayesdice_ppl.fitting import flat_settings
    from bayesdice_ppl.fitting.defaults import AUTO
    from bayesdice_ppl.selection.rules import check_choice

    other = method.choose(context, draws)
    if other is not None and other.gives != "draws":
        logs, policies = data.read()
        supported = write_estimates(
            other,
            logs,
            policies,
            output,
            by=method.by,
            seed=seed,
            overwrite=overwrite,
            source=data.source,
            level=method.level,
            **given(question),
        )
        raise typer.Exit(0 if supported else EXIT_NO_RECOMMENDATION)
    score, rules, model = judge.make(), launch.rules(), model.with_baseline(judge)
    within = unseen.choice() | several.choice()
    logs, policies = data.read()
    # Whatever can be refused is refused before the minutes of a fit.
    several.check(logs.rewards)
    logged = ["logged"] if model.include_logged and other is None else []
    check_choice(score, (*policies, *logged), **rules)
    if other is not None:
        make_belief = partial(draw_belief, other, logs, policies, seed, **given(question))
    else:
        settings = model.settings(question, draws)
        early = {**settings, "inference": None} if model.inference == AUTO else settings
        flat_settings(**early)
        make_belief = partial(fit_belief, logs, policies, seed, **settings)
    selection = write_selection(
        logs,
        make_belief,
        score,
        output,
        overwrite=overwrite,
        source=data.source,
        launch={**rules, **within},
    )
    raise typer.Exit(0 if selection.recommended else EXIT_NO_RECOMMENDATION)


@app.command()
@with_options
def fit(
    data: DataOptions,
    question: ValueOptions,
    output: Annotated[Path, typer.Option("-o", "--output", help="The belief, a .nc file.")],
    model: ModelOptions,
    seed: Seed = None,
    draws: Draws = None,
    overwrite: Overwrite = False,
) -> None:
    """Fit a belief and save it. `bayesdice rank` ranks it later, under any score."""
    from bayesdice_ppl.belief import note_on_starts, read_notes, save_belief
    from bayesdice_ppl.cli.console import make_console, show_fit, show_logs
    from bayesdice_ppl.outputs import check_file

    check_file(output, overwrite=overwrite, inputs=(data.logs, data.policies))
    logs, policies = data.read()
    console = make_console()
    show_logs(console, logs)
    belief = fit_belief(logs, policies, seed, **model.settings(question, draws))
    show_fit(console, belief)
    for note in (note_on_starts(belief), *read_notes(belief)):
        if note:
            console.print(f"Note: {note}", markup=False)
    save_belief(belief, output)
    console.print(f"Wrote {output}.", markup=False)


@app.command()
@with_options
def rank(
    belief: Annotated[Path, typer.Argument(help="A belief, from `bayesdice fit` or `select`.")],
    judge: ScoreOptions,
    launch: LaunchOptions,
    several: RewardOptions,
    unseen: UnseenOptions,
    statistic: Statistic = None,
    information: Annotated[
        bool,
        typer.Option(
            "--information",
            help="Also show which values, and which pairs never logged, are worth knowing.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the ranking, a .json file.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Rank a saved belief under another score, without fitting again."""
    from bayesdice_ppl.belief import load_belief, read_moves
    from bayesdice_ppl.cli.console import (
        make_console,
        show_information,
        show_selection,
        show_trying,
    )
    from bayesdice_ppl.outputs import check_file, write_json
    from bayesdice_ppl.selection import select as select_ranking
    from bayesdice_ppl.selection import value_of_information, value_of_trying

    score, rules = judge.make(), launch.rules()
    within = unseen.choice() | several.with_statistic(statistic)
    which = within.pop("statistic")
    if information and several.limits is not None:
        raise SettingsError(
            "--information: expected no --limits beside it, as what is worth knowing is found for "
            "all candidates. Name those that may not go live with --must-exclude."
        )
    if output is not None:
        check_file(output, overwrite=overwrite, inputs=(belief,))
    loaded = load_belief(belief)
    selection = select_ranking(loaded, score, statistic=which, **rules, **within)
    content = ranking_content(selection, loaded, {"belief": belief.name})
    worth = trying = None
    if information:
        with make_console(stderr=True).status("Finding which values are worth knowing better ..."):
            worth = value_of_information(loaded, score, statistic=which, **rules)
            # Pairs that the log does not have are known of the mean reward alone.
            if which == "value" and read_moves(loaded, tuple(selection.order)) is not None:
                trying = value_of_trying(loaded, score, **rules)
        content["information"] = {"perfect": worth.perfect, "table": worth.table.to_dicts()}
        if trying is not None:
            content["information"]["trying"] = trying.table.to_dicts()
    console = make_console()
    show_selection(console, selection)
    if worth is not None:
        show_information(console, worth)
    if trying is not None:
        show_trying(console, trying)
    if output is not None:
        write_json(content, output)
        console.print(f"Wrote {output}.", markup=False)
    raise typer.Exit(0 if selection.recommended else EXIT_NO_RECOMMENDATION)
