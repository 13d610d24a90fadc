"""What the name of a method stands for, and which settings the name leaves to be given.

A name decides some settings of the method's maker, by itself and by the options that follow it.
Which of the others have an effect may depend on that.
"""

from __future__ import annotations

import difflib
import inspect
from itertools import product
from typing import Any, Final, NamedTuple, final

from bayesdice_ppl.baselines.entries import METHODS, OPTIONS, Entry
from bayesdice_ppl.errors import SettingsError

BAYESDICE: Final = "bayesdice"
"""The library's own method, which `bayesdice_ppl.fit` is and no baseline."""


@final
class Named(NamedTuple):
    """What a name stands for.

    Attributes
    ----------
    base
        The name without options.
    options
        Its options, in the order given.
    entry
        What it is made by.
    chosen
        Settings that the options stand for.
    """

    base: str
    options: tuple[str, ...]
    entry: Entry
    chosen: dict[str, Any]

    @property
    def name(self) -> str:
        """The whole name."""
        return ":".join((self.base, *self.options))

    @property
    def values(self) -> dict[str, Any]:
        """Every setting that the name decides, its options' defaults too, with its value."""
        parameters = inspect.signature(self.entry.maker).parameters
        decided = {OPTIONS[option][0] for option in self.entry.options}
        defaults = {key: parameters[key].default for key in decided}
        return {**defaults, **self.entry.fixed, **self.chosen}

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Settings that no name of the method decides, each with its annotation and default."""
        by_name = {*self.entry.fixed, *(OPTIONS[option][0] for option in self.entry.options)}
        parameters = inspect.signature(self.entry.maker).parameters
        return {key: value for key, value in parameters.items() if key not in by_name}

    @property
    def settings(self) -> dict[str, inspect.Parameter]:
        """Those of them of which this name does not say that they have no effect."""
        values, uses = self.values, self.entry.uses
        return {
            key: parameter
            for key, parameter in self.parameters.items()
            if all(
                each.holds(values[each.setting])
                for each in uses.get(key, ())
                if each.setting in values
            )
        }


def look_up(name: str) -> Named:
    """Read a name.

    Parameters
    ----------
    name
        Of a method, perhaps with options after colons, in any case.

    Raises
    ------
    SettingsError
        There is no such method or option, or two options say the same.
    """
    if not isinstance(name, str):
        raise SettingsError(f"method: expected a name such as 'wpdis:bca', found {name!r}.")
    base, *options = name.strip().lower().replace("-", "_").split(":")
    if base == BAYESDICE:
        raise SettingsError(
            "bayesdice is the library's own method and no baseline: bayesdice_ppl.fit gives its "
            "belief, and so does bayesdice select without --method."
        )
    if base not in METHODS:
        raise SettingsError(
            f"unknown method {base!r}{_meant(base)} bayesdice methods lists all, and so does "
            "bayesdice_ppl.baselines.catalog()."
        )
    entry = METHODS[base]
    chosen: dict[str, Any] = {}
    for option in options:
        if option not in entry.options:
            known = ", ".join(f"{base}:{each}" for each in entry.options)
            raise SettingsError(
                f"{name}: {base} has no option {option!r}; "
                + (f"there are {known}." if known else "it takes none.")
            )
        setting, value = OPTIONS[option]
        if setting in chosen:
            raise SettingsError(f"{name}: two options say what {setting} is; give one.")
        chosen[setting] = value
    return Named(base, tuple(options), entry, chosen)


def _meant(base: str) -> str:
    """What may have been meant, by the names of methods and of their makers."""
    # A maker's name stands for all the methods that it makes.
    known: dict[str, list[str]] = {}
    for name, entry in METHODS.items():
        known.setdefault(str(getattr(entry.maker, "__name__", name)), []).append(name)
    known |= {name: [name] for name in (*METHODS, BAYESDICE)}
    close = difflib.get_close_matches(base, known, n=3)
    names = list(dict.fromkeys(name for each in close for name in known[each]))
    return f"; did you mean {', '.join(names)}?" if names else "."


def every_name() -> tuple[str, ...]:
    """List every name that `make` takes: each method with each choice of its options."""
    found = []
    for base, entry in METHODS.items():
        by_setting: dict[str, list[str]] = {}
        for option in entry.options:
            by_setting.setdefault(OPTIONS[option][0], [""]).append(f":{option}")
        found += ["".join((base, *chosen)) for chosen in product(*by_setting.values())]
    return tuple(found)


__all__ = ["BAYESDICE", "Named", "every_name", "look_up"]
