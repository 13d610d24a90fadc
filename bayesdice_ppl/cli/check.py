"""The command that checks a log and its candidates, without fitting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayesdice_ppl.cli.app import EXIT_NO_RECOMMENDATION, app
from bayesdice_ppl.cli.console import earned_words, make_console, show_logs, show_rows
from bayesdice_ppl.cli.groups import LogOptions, ValueOptions, given
from bayesdice_ppl.cli.options import with_options


@app.command()
@with_options
def check(
    data: LogOptions,
    question: ValueOptions,
    policies: Annotated[
        Path | None, typer.Option("-p", "--policies", help="Candidates to check with the log.")
    ] = None,
) -> None:
    """Check a log (and candidates), and show what it supports, without fitting."""
    from bayesdice_ppl.fitting import flat_settings, prepare_fit, settings_for
    from bayesdice_ppl.fitting.support import measure_support, support_warnings
    from bayesdice_ppl.fitting.units import in_units, units_of
    from bayesdice_ppl.logs import usable_rows
    from bayesdice_ppl.logs.logged_value import logged_value
    from bayesdice_ppl.policies import read_policies

    flat_settings(**given(question))  # refused before anything is read
    console = make_console()
    loaded = data.read_logs()
    settings = settings_for(loaded, **given(question))
    gamma = settings.gamma
    show_logs(console, loaded)
    rows = usable_rows(loaded, gamma)
    console.print(
        f"At gamma = {gamma:g}, {int(rows.mask.sum()):,} transitions can be used and "
        f"{rows.left_out:,} are left out (next state not logged)."
    )
    if gamma == 0.0 and loaded.n_episodes < loaded.n_transitions:
        console.print(
            f"At gamma = 0 the states of the {loaded.n_episodes:,} first rows of episodes count. "
            "If every row is a decision of its own, add --ignore and the columns of episodes and "
            "steps."
        )
    if rows.left_out:
        console.print(
            f"A column next_state that is filled in {rows.missing:,} rows, the last ones of "
            "episodes that did not terminate, would keep them all."
        )
    earned = logged_value(loaded, gamma, restart=settings.on_termination == "restart")
    console.print(earned_words(earned.value, earned.standard_error))
    if policies is None:
        if loaded.vector_states or loaded.vector_actions:
            console.print(
                "The log can be used in Python, with candidates that are objects: "
                "bayesdice_ppl.fit chooses features for vectors. The command line takes candidates "
                "as tables, and tables need labels."
            )
        else:
            console.print("The log can be used.")
        return
    candidates = read_policies(policies)
    for note in candidates.notes:
        console.print(f"Note: {note}", markup=False)
    with console.status(f"Checking {len(candidates)} candidates ..."):
        measured = in_units(loaded, units_of(loaded, settings))
        prepared = prepare_fit(measured, candidates, settings, guided=False, dependent=False)
        support = measure_support(prepared)
    names = prepared.inputs.names
    headings = ["policy", "unlogged steps", "unknown steps", "effective transitions", "top episode"]
    cells = [
        [
            name,
            f"{support.moved_mass[j]:.2%}",
            f"{support.lost_mass[j]:.2%}",
            f"{support.effective_sample_size[j]:,.0f}",
            f"{support.influential_episode_share[j]:.0%}",
        ]
        for j, name in enumerate(names)
    ]
    show_rows(console, "What the log supports", headings, cells)
    warnings = support_warnings(names, support)
    for warning in warnings:
        console.print(f"Warning: {warning.sentence}", markup=False)
    if any(warning.abstain for warning in warnings):
        console.print("The log says too little about a candidate for a recommendation.")
        raise typer.Exit(EXIT_NO_RECOMMENDATION)
    console.print("The log and the candidates can be used.")
