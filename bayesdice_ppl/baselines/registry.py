"""Every baseline by name: what `bayesdice select --method` and scripts ask for.

A name is that of a method, such as ``wpdis``, and perhaps options after colons, as in
``wpdis:bca:fitted``: an interval from per-trajectory estimates, or a fitted behavior policy.
Everything else is a setting.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Mapping
from typing import Any, Final

import polars as pl

from bayesdice_ppl.baselines.entries import METHODS
from bayesdice_ppl.baselines.interface import Baseline, Needs
from bayesdice_ppl.baselines.names import BAYESDICE, Named, every_name, look_up
from bayesdice_ppl.errors import SettingsError

_HOW_MANY: Final = ("draws", "resamples", "samples", "n_draws", "num_samples", "n_resamples")
"""Words for how often a method draws, of which each method has at most one."""


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
        There is no such method, option or setting; the setting has no effect on the method of that
        name, or without another setting; or its value is out of range. Where it is another setting
        that is missing, the default may be given all the same.
    """
    named = look_up(name)
    _check_settings(named, settings)
    return named.entry.maker(**named.entry.fixed, **named.chosen, **settings)


def settings_of(name: str) -> dict[str, inspect.Parameter]:
    """Settings that have an effect on a method, each with its annotation and default.

    Parameters
    ----------
    name
        As for `make`; options count, so that "wis:bca" takes resamples and "wis:student" does not.

    Raises
    ------
    SettingsError
        There is no such method or option.
    """
    return look_up(name).settings


def conditions_of(name: str) -> dict[str, str]:
    """Say of settings that by default have no effect what has to be given with them.

    Parameters
    ----------
    name
        As for `make`.

    Raises
    ------
    SettingsError
        There is no such method or option.
    """
    named = look_up(name)
    known = named.settings
    needed = {
        key: [
            str(each)
            for each in named.entry.uses.get(key, ())
            if each.setting not in named.values and not each.holds(known[each.setting].default)
        ]
        for key in known
    }
    return {key: " and ".join(conditions) for key, conditions in needed.items() if conditions}


def catalog() -> pl.DataFrame:
    """List the methods that `make` knows.

    Returns
    -------
    polars.DataFrame
        One row each: `name`; `options`, what may follow the name after a colon; `needs`, what it
        asks of a log and of the question beside transitions; `gives`, ``"estimate"``,
        ``"interval"`` or ``"draws"``, without options; `settings`, by name, also those that some
        option alone has a use for; `description`.
    """
    rows = []
    by_base: dict[str, list[str]] = {}
    for name in every_name():
        by_base.setdefault(name.partition(":")[0], []).append(name)
    for base, entry in METHODS.items():
        made = make(base)
        taken = {key for name in by_base[base] for key in settings_of(name)}
        rows.append(
            {
                "name": base,
                "options": ", ".join(entry.options),
                "needs": describe_needs(made.needs),
                "gives": made.gives,
                "settings": ", ".join(key for key in look_up(base).parameters if key in taken),
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


def _check_settings(named: Named, given: Mapping[str, Any]) -> None:
    known, entry = named.settings, named.entry
    for key in given:
        if key in known:
            continue
        if key in named.parameters:
            who = _others_that_use(named, key)
            raise SettingsError(
                f"{named.name}: {key} has no effect on it; {', '.join(who)} "
                f"{'has' if len(who) == 1 else 'have'} a use for it."
            )
        if key in inspect.signature(entry.maker).parameters:
            others = [name for name, each in METHODS.items() if each.maker is entry.maker]
            options = [f":{option}" for option in entry.options]
            raise SettingsError(
                f"{named.base}: {key} is part of a method's name and no setting; choose among "
                f"{', '.join([*others, *options])}."
            )
        has = f"It has {', '.join(known)}." if known else "It has none."
        raise SettingsError(
            f"{named.name} has no setting {key!r}{_meant_setting(key, known)} {has}"
        )
    for key, value in given.items():
        for each in entry.uses.get(key, ()):
            if each.setting in named.values or _is_default(value, known[key].default):
                continue
            other = given.get(each.setting, known[each.setting].default)
            if not each.holds(other):
                raise SettingsError(
                    f"{named.name}: {key} has an effect only with {each}, and {each.setting} is "
                    f"{other!r}; change that, or leave {key} out."
                )


def _others_that_use(named: Named, key: str) -> list[str]:
    """Names that have a use for a setting and differ from this one in nothing else."""
    decisive = {each.setting for each in named.entry.uses[key]}
    same = {at: value for at, value in named.values.items() if at not in decisive}
    found = []
    for name in every_name():
        other = look_up(name)
        agrees = other.entry.maker is named.entry.maker and same.items() <= other.values.items()
        if agrees and key in other.settings:
            found.append(name)
    return found


def _meant_setting(key: str, known: Collection[str]) -> str:
    """What may have been meant: the same thing by another word, or a similar word."""
    close = [word for word in _HOW_MANY if key in _HOW_MANY and word in known]
    close = close or difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]}?" if close else "."


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


__all__ = ["BAYESDICE", "METHODS", "catalog", "conditions_of", "every_name", "make", "settings_of"]
