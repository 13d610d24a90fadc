"""The command that checks a log and its candidates, without fitting: `bayesdice_ppl.check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bayesdice_ppl.cli.app import app
from bayesdice_ppl.cli.groups import LogOptions, ValueOptions, given
from bayesdice_ppl.cli.options import with_options
from bayesdice_ppl.cli.texts import read_actions, read_columns, read_list


@app.command()
@with_options
def check(
    data: LogOptions,
    question: ValueOptions,
    policies: Annotated[
        Path | None, typer.Option("-p", "--policies", help="Candidates to check with the log.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail (exit code 1) at warnings too.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write the report as JSON; docs/check.md has its keys.")
    ] = False,
) -> None:
    """Check a log (and candidates): every fault with its rows and its mend, and what is there.

    Exit codes: 0 can be used; 1 with --strict, there are warnings; 2 cannot be used as it is; 3 can
    be used, but the log says too little about a candidate for a recommendation.
    """
    from bayesdice_ppl.checking import check as check_log
    from bayesdice_ppl.progress import stage

    with stage("check"):
        report = check_log(
            data.logs,
            policies,
            columns=read_columns(data.columns),
            actions=read_actions(data.actions),
            ignore=read_list("--ignore", data.ignore),
            reward=read_list("--reward", data.reward) or None,
            layout=data.layout,
            **given(question),
        )
    if as_json:
        print(json.dumps(report.to_dict(), indent=1, allow_nan=False))
    else:
        print(report)
    raise typer.Exit(report.exit_code(strict=strict))
