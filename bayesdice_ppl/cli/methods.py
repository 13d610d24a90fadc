"""Methods other than BayesDICE on the command line, and which options belong to which method.

An option that a method has no use for is refused by its name, so that none is silently ignored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from bayesdice_ppl.checks import one_of
from bayesdice_ppl.cli.app import app
from bayesdice_ppl.cli.console import make_console, show_methods, show_rows
from bayesdice_ppl.cli.groups import (
    LaunchOptions,
    ModelOptions,
    RewardOptions,
    ScoreOptions,
    UnseenOptions,
)
from bayesdice_ppl.cli.options import field_names, typed_options
from bayesdice_ppl.cli.texts import read_pairs
from bayesdice_ppl.errors import SettingsError

if TYPE_CHECKING:
    from bayesdice_ppl.baselines import Baseline

BAYESDICE = "bayesdice"
OF_REWARDS = field_names(RewardOptions)
OF_BELIEFS = (*field_names(ScoreOptions), *field_names(LaunchOptions))
OF_INTERVALS = ("by", "level")


@final
@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """Other methods.

    Attributes
    ----------
    method
        Another method, such as wpdis:bca. `bayesdice methods` lists them.
    setting
        A setting of the method, as key=value. May be repeated.
    by
        What ranks without a belief: value, or lower or upper, the ends of an interval.
    level
        Coverage of the intervals, in (0, 1).
    """

    method: Annotated[str, typer.Option("-m", "--method")] = BAYESDICE
    setting: Annotated[list[str] | None, typer.Option("--set")] = None
    by: str = "value"
    level: float = 0.9

    def choose(self, context: typer.Context, draws: int | None) -> Baseline | None:
        """Make the method, and refuse options that do not belong to it.

        Parameters
        ----------
        context
            Of the command, which knows what was typed and what is a default.
        draws
            What --draws says.

        Returns
        -------
        Baseline or None
            None for BayesDICE itself.

        Raises
        ------
        SettingsError
            There is no such method or setting, or an option does not belong to it.
        """
        name = self.method
        if name.strip().lower() == BAYESDICE:
            others = ("setting", *OF_INTERVALS)
            _refuse(context, others, "to other methods, and --method is bayesdice")
            return None
        from bayesdice_ppl.baselines import make
        from bayesdice_ppl.baselines.estimates import ORDERS, no_interval

        settings = read_settings(name, self.setting or [])
        if draws is not None:
            _check_draws(name, settings)
            settings["draws"] = draws
        method = make(name, **settings)
        own = (*field_names(ModelOptions), *field_names(UnseenOptions), *OF_REWARDS)
        _refuse(context, own, f"to BayesDICE, and --method is {method.short}")
        if method.gives == "draws":
            why = f"to methods without draws, and {method.short} gives a belief: use --score"
            _refuse(context, OF_INTERVALS, why)
            return method
        only = "intervals" if method.gives == "interval" else "estimates"
        why = f"to beliefs, and {method.short} gives only {only}: use --by to rank the candidates"
        _refuse(context, OF_BELIEFS, why)
        one_of("--by", self.by, ORDERS)
        if method.gives == "estimate" and self.by != "value":
            raise no_interval(method, f"--by {self.by}")
        if method.gives == "estimate" and typed_options(context, ("level",)):
            raise no_interval(method, "--level")
        return method


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


def read_settings(name: str, entries: Iterable[str]) -> dict[str, Any]:
    """Read settings of a method from ``key=value``, each as what the method takes.

    Raises
    ------
    SettingsError
        An entry is no pair, a key is given twice, or a text cannot be read.
    """
    from bayesdice_ppl.baselines.registry import settings_of

    known = settings_of(name)
    parts = (entry.partition("=") for entry in entries)
    written = ((key.replace("-", "_"), equals, text) for key, equals, text in parts)
    texts = read_pairs("--set", written, "key=value, such as ridge=0.1")
    # A key that the method does not have is for `make` to refuse.
    return {
        key: _read(key, text, known[key]) if key in known else text for key, text in texts.items()
    }


def _read(key: str, text: str, parameter: inspect.Parameter) -> Any:
    """A text as one of the types that a parameter's annotation names."""
    kinds = [kind.strip() for kind in str(parameter.annotation).split("|")]
    readable = [_KINDS[kind] for kind in kinds if kind in _KINDS]
    if all(words == "none" for words, _ in readable):
        raise SettingsError(f"--set: {key} is an object. Set it in Python.")
    for _, reader in readable:
        try:
            return reader(text)
        except (KeyError, ValueError):
            continue
    words = " or ".join(words for words, _ in readable)
    raise SettingsError(f"--set: {key}: expected {words}, found {text!r}.")


def _pair(text: str) -> tuple[float, float]:
    first, second = map(float, text.split(","))
    return first, second


_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "None": ("none", lambda text: {"none": None}[text.lower()]),
    "bool": ("true or false", lambda text: _TRUTHS[text.lower()]),
    "int": ("a whole number", int),
    "float": ("a number", float),
    "tuple[float, float]": ("two numbers, such as 0,1", _pair),
    "tuple[int, ...]": (
        "whole numbers, such as 64,64",
        lambda text: tuple(map(int, text.split(","))),
    ),
    "str": ("a text", str),
}
"""How types in annotations are called, and how they are read."""


def _check_draws(name: str, settings: dict[str, Any]) -> None:
    from bayesdice_ppl.baselines.registry import settings_of

    if "draws" in settings:
        raise SettingsError("--draws and --set draws: expected one of them, found both.")
    known = settings_of(name)
    if "draws" not in known:
        takes = f"--set takes {', '.join(known)}" if known else "it has no settings"
        raise SettingsError(f"--draws: {name} has no setting of that name; {takes}.")


def _refuse(context: typer.Context, names: Iterable[str], why: str) -> None:
    typed = typed_options(context, names)
    if typed:
        verb = "belongs" if len(typed) == 1 else "belong"
        raise SettingsError(f"{', '.join(typed)} {verb} {why}.")
