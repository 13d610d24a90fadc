"""The command that holds a log against its candidates, without fitting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayesdice_ppl.cli.app import EXIT_NO_RECOMMENDATION, app
from bayesdice_ppl.cli.options import (
    ActionsOption,
    ColumnsOption,
    GammaOption,
    LogsArgument,
    TerminationOption,
    parse_actions,
    parse_columns,
)


@app.command()
def check(
    logs: LogsArgument,
    gamma: GammaOption,
    policies: Annotated[
        Path | None, typer.Option("--policies", "-p", help="Candidates to hold against the log.")
    ] = None,
    columns: ColumnsOption = None,
    actions: ActionsOption = None,
    on_termination: TerminationOption = "restart",
) -> None:
    """Validate a log (and candidates) and say what it supports, without fitting."""
    from bayesdice_ppl.console import make_console, show_logs, show_rows
    from bayesdice_ppl.fitting import FitSettings, default_features, prepare_fit
    from bayesdice_ppl.fitting.support import measure_support, support_warnings
    from bayesdice_ppl.logs import read_logs, usable_rows
    from bayesdice_ppl.logs.logged_value import logged_value
    from bayesdice_ppl.policies import read_policies

    FitSettings(gamma, on_termination=on_termination)  # refused before anything is read
    console = make_console()
    loaded = read_logs(logs, columns=parse_columns(columns), actions=parse_actions(actions))
    settings = FitSettings(gamma, on_termination=on_termination, features=default_features(loaded))
    show_logs(console, loaded)
    rows = usable_rows(loaded, gamma)
    console.print(
        f"At gamma = {gamma:g}, {int(rows.mask.sum()):,} transitions can be used and "
        f"{rows.left_out:,} are left out (successor state not logged)."
    )
    earned = logged_value(loaded, gamma, restart=on_termination == "restart")
    console.print(
        f"The logging policy itself earned {earned.value:.4g} per step "
        f"(standard error {earned.standard_error:.2g})."
    )
    if policies is None:
        if loaded.vector_states or loaded.vector_actions:
            console.print(
                "The log can be used from Python, with candidates that are objects: "
                "bayesdice_ppl.fit chooses features for its vectors. The command line takes "
                "candidates as tables, and needs labels."
            )
        else:
            console.print("The log can be used.")
        return
    candidates = read_policies(policies)
    with console.status(f"Holding {len(candidates)} candidates against the log ..."):
        prepared = prepare_fit(loaded, candidates, settings)
        support = measure_support(prepared)
    names = prepared.inputs.names
    headings = [
        "policy",
        "unlogged steps",
        "unknown steps",
        "effective transitions",
        "top episode",
    ]
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
        console.print("The log supports some candidate too thinly for a recommendation.")
        raise typer.Exit(EXIT_NO_RECOMMENDATION)
    console.print("The log and the candidates can be used.")
