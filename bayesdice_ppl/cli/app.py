"""The command itself: what its subcommands share, and how it ends.

Exit codes: 0 done; 2 bad input, said in one sentence; 3 done, but no recommendation, because the
logs support a candidate too thinly.
"""

from __future__ import annotations

import secrets
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bayesdice_ppl.cli.options import parse_actions, parse_columns
from bayesdice_ppl.errors import BayesDiceError

if TYPE_CHECKING:
    from bayesdice_ppl.logs import Logs
    from bayesdice_ppl.policies import Policies

EXIT_BAD_INPUT = 2
EXIT_NO_RECOMMENDATION = 3

app = typer.Typer(
    name="bayesdice",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Choose among policies that you cannot try, from logs of one that ran.",
)


def read_input(
    logs: Path, policies: Path, columns: str | None, actions: str | None
) -> tuple[Logs, Policies]:
    """Read a log and a table of candidates."""
    from bayesdice_ppl.logs import read_logs
    from bayesdice_ppl.policies import read_policies

    loaded = read_logs(logs, columns=parse_columns(columns), actions=parse_actions(actions))
    return loaded, read_policies(policies)


def draw_seed(seed: int | None) -> int:
    """Take the seed that is given, or draw one."""
    if seed is not None:
        return seed
    return secrets.randbits(31)


def _stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command; bad input ends with exit code 2 and one sentence."""
    # A run that is told to stop unwinds, and so takes its scratch folder with it.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        app()
    except BayesDiceError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


if __name__ == "__main__":
    main()
