"""Every baseline by name: what `bayesdice select --method` and scripts ask for.

A name is that of a method, such as ``wpdis``, and perhaps options after colons, as in
``wpdis:bca:fitted``: an interval from per-trajectory estimates, or a fitted behavior policy.
Everything else is a setting.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import polars as pl

from bayesdice_ppl.baselines.entries import METHODS, OPTIONS, Entry
from bayesdice_ppl.baselines.interface import Baseline, Needs
from bayesdice_ppl.errors import SettingsError

BAYESDICE: Final = "bayesdice"
"""The library's own method, which `bayesdice_ppl.fit` is and no baseline."""


def make(name: str, **settings: Any) -> Baseline:
    """Make a baseline by name.

    Parameters
    ----------
    name
        Such as ``"lstdq"`` or ``"wpdis:bca:fitted"``; `catalog` lists them. The `short` of what is
        made is the name again.
    **settings
        What the method's maker takes beside what the name says, such as ``renormalize=True``.

    Returns
    -------
    Baseline
        What `estimate_all` takes, or ask it for one policy by its `estimate`.

    Raises
    ------
    SettingsError
        There is no such method, option or setting; or the setting's value is out of range.
    """
    base, entry, chosen = _look_up(name)
    _check_settings(base, entry, settings)
    return entry.maker(**entry.fixed, **chosen, **settings)


def settings_of(name: str) -> dict[str, inspect.Parameter]:
    """Settings that a method takes, each with its annotation and default.

    Parameters
    ----------
    name
        As for `make`.

    Raises
    ------
    SettingsError
        There is no such method or option.
    """
    return _settings(_look_up(name)[1])


def every_name() -> tuple[str, ...]:
    """List every name that `make` takes: each method with each choice of its options."""
    found = []
    for base, entry in METHODS.items():
        by_setting: dict[str, list[str]] = {}
        for option in entry.options:
            by_setting.setdefault(OPTIONS[option][0], [""]).append(f":{option}")
        found += ["".join((base, *chosen)) for chosen in product(*by_setting.values())]
    return tuple(found)


def catalog() -> pl.DataFrame:
    """List the methods that `make` knows.

    Returns
    -------
    polars.DataFrame
        One row each: `name`; `options`, what may follow the name after a colon; `needs`, what it
        asks of a log and of the question beside transitions; `gives`, ``"estimate"``,
        ``"interval"`` or ``"draws"``, without options; `settings`, by name; `description`.
    """
    rows = []
    for base, entry in METHODS.items():
        made = make(base)
        rows.append(
            {
                "name": base,
                "options": ", ".join(entry.options),
                "needs": describe_needs(made.needs),
                "gives": made.gives,
                "settings": ", ".join(_settings(entry)),
                "description": entry.sentence,
            }
        )
    return pl.DataFrame(rows)


def describe_needs(needs: Needs) -> str:
    """Say what a method needs beside transitions, an empty text for nothing."""
    parts = {
        "propensities": needs.propensities,
        "labels": needs.labels,
        "gamma = 0": needs.bandit,
        "rng_key": needs.rng_key,
    }
    return ", ".join(part for part, needed in parts.items() if needed)


def _look_up(name: str) -> tuple[str, Entry, dict[str, Any]]:
    """Name, entry and the settings that the options stand for."""
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
    return base, entry, chosen


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


def _settings(entry: Entry) -> dict[str, inspect.Parameter]:
    by_name = {*entry.fixed, *(OPTIONS[option][0] for option in entry.options)}
    parameters = inspect.signature(entry.maker).parameters
    return {key: value for key, value in parameters.items() if key not in by_name}


def _check_settings(base: str, entry: Entry, given: Mapping[str, Any]) -> None:
    known = _settings(entry)
    for key in given:
        if key in known:
            continue
        if key in inspect.signature(entry.maker).parameters:
            others = [name for name, each in METHODS.items() if each.maker is entry.maker]
            options = [f":{option}" for option in entry.options]
            raise SettingsError(
                f"{base}: {key} is part of a method's name and no setting; choose among "
                f"{', '.join([*others, *options])}."
            )
        close = difflib.get_close_matches(key, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else "."
        has = f"It has {', '.join(known)}." if known else "It has none."
        raise SettingsError(f"{base} has no setting {key!r}{meant} {has}")


__all__ = ["BAYESDICE", "METHODS", "catalog", "every_name", "make", "settings_of"]
