"""Methods other than BayesDICE on the command line: which there are, and what may be asked of each.

An option that a method has no use for is refused by its name, so that none is silently ignored.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesdice_ppl.cli.app import app
from bayesdice_ppl.errors import SettingsError

if TYPE_CHECKING:
    from bayesdice_ppl.baselines import Baseline

BAYESDICE = "bayesdice"
OF_BAYESDICE = (
    "inference",
    "penalty",
    "surrogate",
    "link",
    "statistic",
    "cluster",
    "joint",
    "small_sample",
    "preset",
    "include_logged",
)
"""Parameters of `bayesdice select` that belong to BayesDICE alone."""
OF_BELIEFS = (
    "score",
    "top",
    "risk",
    "baseline",
    "xi",
    "costs",
    "budget",
    "must_include",
    "must_exclude",
)
"""Those that rank a belief."""
OF_INTERVALS = ("by", "level")
"""Those of estimates and their intervals."""

MethodOption = Annotated[
    str,
    typer.Option("--method", "-m", help="Another method, such as wpdis:bca: bayesdice methods."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the method, key=value; may be repeated."),
]
ByOption = Annotated[
    str,
    typer.Option(help="With --method: value, or lower or upper, the ends of an interval."),
]
LevelOption = Annotated[
    float, typer.Option(help="With --method: coverage of the intervals, in (0, 1).")
]


@app.command()
def methods(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings of this method, such as wpdis:bca.")
    ] = None,
) -> None:
    """List the methods that `bayesdice select --method` knows, or the settings of one."""
    import polars as pl

    from bayesdice_ppl.baselines import catalog, make
    from bayesdice_ppl.baselines.registry import conditions_of, settings_of
    from bayesdice_ppl.console import make_console, show_methods, show_rows

    console = make_console()
    if name is None:
        show_methods(console, catalog())
        return
    settings = settings_of(name)
    method = make(name)
    base = method.short.partition(":")[0]
    known = catalog().filter(pl.col("name") == base).row(0, named=True)
    console.print(known["description"], markup=False)
    needs = str(method.needs) or "transitions alone"
    console.print(f"Needs: {needs}. Gives: {method.gives}.")
    if not settings:
        console.print("It has no settings.")
        return
    conditions = conditions_of(name)
    headings = ["name", "takes", "default", *(["only with"] if conditions else [])]
    rows = []
    for key, parameter in settings.items():
        takes = str(parameter.annotation).replace(" | ", " or ")
        cells = [key, takes, str(parameter.default), conditions.get(key, "")]
        rows.append(cells[: len(headings)])
    show_rows(console, "Settings, each --set name=value", headings, rows)


def choose_method(
    context: typer.Context, name: str, entries: list[str] | None, by: str
) -> Baseline | None:
    """Make the method that was asked for, and refuse options that it has no use for.

    Parameters
    ----------
    context
        Of the command, which knows what was typed and what is a default.
    name, entries, by
        What --method, --set and --by say.

    Returns
    -------
    Baseline or None
        None for BayesDICE itself.

    Raises
    ------
    SettingsError
        There is no such method or setting, or an option does not belong to it.
    """
    if name.strip().lower() == BAYESDICE:
        _refuse(context, ("setting", *OF_INTERVALS), "to other methods, and --method is bayesdice")
        return None
    from bayesdice_ppl.baselines import make
    from bayesdice_ppl.baselines.estimates import ORDERS, no_interval

    settings = parse_settings(name, entries or [])
    if _given(context, ("draws",)):
        settings["draws"] = _draws(name, settings, context.params["draws"])
    method = make(name, **settings)
    _refuse(context, OF_BAYESDICE, f"to BayesDICE alone, and --method is {method.short}")
    if method.gives == "draws":
        _refuse(
            context,
            OF_INTERVALS,
            f"to methods without draws, and {method.short} gives a belief, ranked by --score",
        )
        return method
    _refuse(
        context,
        OF_BELIEFS,
        f"to beliefs, and {method.short} gives none, only "
        f"{'intervals' if method.gives == 'interval' else 'estimates'}: candidates are put in "
        "order by --by",
    )
    if by not in ORDERS:
        raise SettingsError(f"--by: expected one of {', '.join(ORDERS)}, found {by!r}.")
    if method.gives == "estimate" and by != "value":
        raise no_interval(method, f"--by {by}")
    if method.gives == "estimate" and _given(context, ("level",)):
        raise no_interval(method, "--level")
    return method


def parse_settings(name: str, entries: list[str]) -> dict[str, Any]:
    """Settings of a method from ``key=value``, each read as what the method takes.

    Raises
    ------
    SettingsError
        An entry is no pair, a key is given twice, or a text cannot be read.
    """
    from bayesdice_ppl.baselines.registry import settings_of

    known = settings_of(name)
    settings: dict[str, Any] = {}
    for entry in entries:
        key, equals, text = (part.strip() for part in entry.partition("="))
        key = key.replace("-", "_")
        if not (key and equals and text):
            raise SettingsError(f"--set: expected key=value, such as ridge=0.1, found {entry!r}.")
        if key in settings:
            raise SettingsError(f"--set: {key!r} is given twice.")
        # A key that the method does not have is for `make` to refuse.
        settings[key] = _read(key, text, known[key]) if key in known else text
    return settings


def _read(key: str, text: str, parameter: inspect.Parameter) -> Any:
    """A text as one of the types that a parameter's annotation names."""
    kinds = [kind.strip() for kind in str(parameter.annotation).split("|")]
    for kind in kinds:
        reader = _READERS.get(kind)
        if reader is None:
            continue
        try:
            return reader(text)
        except ValueError:
            continue
    readable = [kind for kind in kinds if kind in _READERS]
    if set(readable) <= {"None"}:
        raise SettingsError(f"--set: {key} is an object, which only Python can give.")
    words = " or ".join(_WORDS[kind] for kind in readable)
    raise SettingsError(f"--set: {key}: expected {words}, found {text!r}.")


def _none(text: str) -> None:
    if text.lower() != "none":
        raise ValueError(text)


def _truth(text: str) -> bool:
    words = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _pair(text: str) -> tuple[float, float]:
    first, second = map(float, text.split(","))
    return first, second


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


_READERS: dict[str, Any] = {
    "None": _none,
    "bool": _truth,
    "int": int,
    "float": float,
    "tuple[float, float]": _pair,
    "tuple[int, ...]": _numbers,
    "str": str,
}
_WORDS = {
    "None": "none",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "tuple[float, float]": "two numbers with a comma between",
    "tuple[int, ...]": "whole numbers between commas",
    "str": "a text",
}


def _draws(name: str, settings: dict[str, Any], number: int) -> int:
    from bayesdice_ppl.baselines.registry import settings_of

    if "draws" in settings:
        raise SettingsError("--draws and --set draws say the same; give one.")
    known = settings_of(name)
    if "draws" not in known:
        takes = f"--set takes {', '.join(known)}" if known else "it has none at all"
        raise SettingsError(f"--draws: {name} has no setting of that name; {takes}.")
    return number


def _given(context: typer.Context, names: tuple[str, ...]) -> list[str]:
    """Options among these that were typed, as they are written."""
    written = {each.name: each.opts for each in context.command.params}
    found = []
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            found.append(max(written[name], key=len))
    return found


def _refuse(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    given = _given(context, names)
    if given:
        verb = "belongs" if len(given) == 1 else "belong"
        raise SettingsError(f"{', '.join(given)} {verb} {why}.")
