"""The application: what all commands share, and how they end.

Exit codes: 0 is done; 2 is bad input, explained in one sentence; 3 is done without a
recommendation, because the log says too little about a candidate.
"""

from __future__ import annotations

import secrets
import signal
import sys
from typing import Annotated, Any

import typer

from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.plain import plain_text, shortened
from bayesdice_ppl.progress import silent

EXIT_BAD_INPUT = 2
EXIT_NO_RECOMMENDATION = 3

app = typer.Typer(
    name="bayesdice",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Choose among policies that were never run, from the log of one that was.",
)


def _version(asked: bool) -> None:
    if asked:
        from bayesdice_ppl._version import __version__

        print(f"bayesdice {__version__}")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress on the terminal.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """What all commands take before their name."""
    context.with_resource(silent(really=quiet))


def draw_seed(seed: int | None) -> int:
    """The seed that is given, or a random one."""
    return secrets.randbits(31) if seed is None else seed


def _stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command; bad input ends with exit code 2 and one sentence."""
    # A run that is told to stop removes its scratch folder on the way out.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        app()
    except BayesDiceError as error:
        print(f"Error: {shortened(plain_text(error))}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


if __name__ == "__main__":
    main()
