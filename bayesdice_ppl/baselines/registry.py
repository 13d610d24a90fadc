"""Every method by name: what `bayesdice select --method` and `make` take.

A name such as ``wpdis:bca:fitted`` is that of a method, perhaps with options after colons. It
decides some settings of the class that it stands for; the other settings are given by keyword.

To add a method, derive a frozen dataclass from `bayesdice_ppl.baselines.interface.Estimator`,
and give it a line in `METHODS`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from itertools import product
from typing import Any, Final, NamedTuple, final

import polars as pl

from bayesdice_ppl.baselines.bayesian.bdqn import bdqn
from bayesdice_ppl.baselines.bayesian.beta_bandit import beta_bandit
from bayesdice_ppl.baselines.bayesian.dirichlet_model import dirichlet_model
from bayesdice_ppl.baselines.bayesian.lstdq_bootstrap import lstdq_bootstrap
from bayesdice_ppl.baselines.dice.coin_dice import coin_dice
from bayesdice_ppl.baselines.dice.dual_dice import dual_dice
from bayesdice_ppl.baselines.dice.lagrangian_dice import lagrangian_dice
from bayesdice_ppl.baselines.interface import Estimator
from bayesdice_ppl.baselines.value.fitted_q import fitted_q
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.baselines.weighting.doubly_robust import doubly_robust
from bayesdice_ppl.baselines.weighting.importance_sampling import importance_sampling
from bayesdice_ppl.baselines.weighting.intervals import INTERVALS
from bayesdice_ppl.baselines.weighting.marginalized import marginalized
from bayesdice_ppl.baselines.weighting.minimax_weight import minimax_weight
from bayesdice_ppl.errors import SettingsError

BAYESDICE: Final = "bayesdice"
"""The library's own method, which is `bayesdice_ppl.fit`."""


@final
class Entry(NamedTuple):
    """A method as the registry knows it.

    Attributes
    ----------
    maker
        The class that it is made of, by its public name.
    sentence
        What it does, in one sentence.
    fixed
        Settings that the name decides, with their values.
    options
        Word that may follow the name -> the setting that it decides, and its value.
    """

    maker: Callable[..., Estimator]
    sentence: str
    fixed: Mapping[str, Any] = {}
    options: Mapping[str, tuple[str, str]] = {}

    @property
    def settings(self) -> Mapping[str, inspect.Parameter]:
        """Every setting of the class, with its annotation and default."""
        return inspect.signature(self.maker).parameters

    @property
    def decided(self) -> dict[str, Any]:
        """Settings that names of the method decide, with their values when no option is given."""
        by_option = {setting for setting, _ in self.options.values()}
        return {key: self.settings[key].default for key in by_option} | dict(self.fixed)


_INTERVAL = {kind: ("interval", kind) for kind in INTERVALS}
_WEIGHTED = {**_INTERVAL, "fitted": ("behavior", "fitted")}
_PRESET = {each: ("preset", each) for each in ("dual_dice", "minimax_weight")}

METHODS: Final[Mapping[str, Entry]] = {
    "is": Entry(
        importance_sampling,
        "Episodes weighted by the ratio of all their actions.",
        {"kind": "trajectory", "normalized": False},
        _WEIGHTED,
    ),
    "pdis": Entry(
        importance_sampling,
        "Rewards weighted by the ratio of the actions up to them.",
        {"kind": "per_step", "normalized": False},
        _WEIGHTED,
    ),
    "wis": Entry(
        importance_sampling,
        "As is, with weights that average one.",
        {"kind": "trajectory", "normalized": True},
        _WEIGHTED,
    ),
    "wpdis": Entry(
        importance_sampling,
        "As pdis, with weights that average one at each step.",
        {"kind": "per_step", "normalized": True},
        _WEIGHTED,
    ),
    "dr": Entry(
        doubly_robust,
        "Doubly robust: a model's value, corrected by weighted errors.",
        {"weighted": False},
        _WEIGHTED,
    ),
    "wdr": Entry(
        doubly_robust,
        "As dr, with weights that average one at each step.",
        {"weighted": True},
        _WEIGHTED,
    ),
    "mis": Entry(
        marginalized,
        "Rewards weighted by the stationary ratio, summed by episode.",
        options=_INTERVAL,
    ),
    "lstdq": Entry(lstdq, "Least-squares temporal differences for the action value."),
    "fqe": Entry(
        fitted_q,
        "Fitted Q evaluation with a linear model, until it converges.",
        {"model": "linear"},
    ),
    "fqe_mlp": Entry(fitted_q, "Fitted Q evaluation with a network.", {"model": "mlp"}),
    "mwl": Entry(minimax_weight, "Minimax weight learning, linear critics.", {"critics": "linear"}),
    "mwl_kernel": Entry(
        minimax_weight,
        "Minimax weight learning for vectors, critics of a kernel.",
        {"critics": "kernel"},
    ),
    "mql": Entry(lagrangian_dice, "Minimax Q learning, linear.", {"preset": "minimax_q"}),
    "dual_dice": Entry(dual_dice, "DualDICE in closed form."),
    "gen_dice": Entry(
        lagrangian_dice, "GenDICE: a positive, normalized ratio.", {"preset": "gen_dice"}
    ),
    "gradient_dice": Entry(
        lagrangian_dice, "GradientDICE: as gen_dice, of any sign.", {"preset": "gradient_dice"}
    ),
    "best_dice": Entry(
        lagrangian_dice,
        "What the authors of the regularized Lagrangian found best.",
        {"preset": "best_dice"},
    ),
    "lagrangian_dice": Entry(
        lagrangian_dice, "The regularized Lagrangian, all switches off.", options=_PRESET
    ),
    "coin_dice": Entry(coin_dice, "CoinDICE: values over all plausible reweightings of the log."),
    "dirichlet": Entry(
        dirichlet_model, "Posterior over tabular worlds, each drawn one solved exactly."
    ),
    "lstdq_bootstrap": Entry(lstdq_bootstrap, "LSTDQ under the Bayesian bootstrap."),
    "bdqn": Entry(bdqn, "A Q network with a Bayesian last layer."),
    "beta": Entry(beta_bandit, "Conjugate posterior of a bandit with two rewards."),
}
"""The methods, in the order in which they are listed."""


@final
class Named(NamedTuple):
    """What a whole name stands for: the method's entry, and the settings that the name decides."""

    name: str
    entry: Entry
    decided: dict[str, Any]

    @property
    def settings(self) -> dict[str, inspect.Parameter]:
        """Settings that have an effect, as far as the name says."""
        return {
            key: parameter
            for key, parameter in self.open.items()
            if not _unmet(self.entry, key, self.decided)
        }

    @property
    def open(self) -> dict[str, inspect.Parameter]:
        """Settings that no name of the method decides."""
        return {k: each for k, each in self.entry.settings.items() if k not in self.decided}


def make(name: str, **settings: Any) -> Estimator:
    """Make a method by name.

    Parameters
    ----------
    name
        Such as ``"lstdq"`` or ``"wpdis:bca:fitted"``; `catalog` lists them. The `short` of what is
        made is the name again.
    **settings
        What the method takes beside what the name says, such as ``renormalize=True``.

    Returns
    -------
    Estimator
        What `estimate_all` takes. For one policy ask its `estimate`.

    Raises
    ------
    SettingsError
        There is no such method, option or setting; the setting has no effect on the method of that
        name, or without another setting; or its value is out of range. A default that has no effect
        for want of another setting may be given.
    """
    named = look_up(name)
    for key in settings:
        if key not in named.settings:
            raise _no_setting(named, key)
    made = named.entry.maker(**named.decided, **settings)
    for key, value in settings.items():
        if _is_default(value, named.open[key].default):
            continue
        open_fields = {other: getattr(made, other) for other in named.open}
        for other, values in _unmet(named.entry, key, open_fields).items():
            raise SettingsError(
                f"{key}: {named.name} uses it only with {_condition(other, values)}, found "
                f"{other}={open_fields[other]!r}. Change {other}, or leave {key} out."
            )
    return made


def settings_of(name: str) -> dict[str, inspect.Parameter]:
    """Settings that have an effect on a method, each with its annotation and default.

    Options of the name count: "wis:bca" takes resamples and "wis:student" does not.

    Raises
    ------
    SettingsError
        There is no such method or option.
    """
    return look_up(name).settings


def conditions_of(name: str) -> dict[str, str]:
    """Say of settings that have no effect by default what has to be given with them.

    Raises
    ------
    SettingsError
        There is no such method or option.
    """
    named, made = look_up(name), make(name)
    defaults = {key: getattr(made, key) for key in named.open}
    unmet = {key: _unmet(named.entry, key, defaults) for key in named.settings}
    return {
        key: " and ".join(_condition(*each) for each in others.items())
        for key, others in unmet.items()
        if others
    }


def catalog() -> pl.DataFrame:
    """List the methods that `make` knows.

    Returns
    -------
    polars.DataFrame
        One row each: `name`; `options`, what may follow the name after a colon; `needs`, what it
        asks of a log and of the question beside transitions; `gives`, ``"estimate"``,
        ``"interval"`` or ``"draws"``, without options; `settings`, by name, also those that only
        some option uses; `description`.
    """
    rows = []
    for base, entry in METHODS.items():
        made, every = make(base), [look_up(name) for name in names_of(base)]
        taken = [key for key in every[0].open if any(key in each.settings for each in every)]
        rows.append(
            {
                "name": base,
                "options": ", ".join(entry.options),
                "needs": str(made.needs),
                "gives": made.gives,
                "settings": ", ".join(taken),
                "description": entry.sentence,
            }
        )
    return pl.DataFrame(rows)


def look_up(name: str) -> Named:
    """Read a name, in any case, with options in any order.

    Raises
    ------
    SettingsError
        There is no such method or option, or two options decide the same setting.
    """
    if not isinstance(name, str):
        raise SettingsError(f"method: expected a name such as 'wpdis:bca', found {name!r}.")
    base, *options = name.strip().lower().replace("-", "_").split(":")
    if base == BAYESDICE:
        raise SettingsError(
            "method: bayesdice is the library's own method and no baseline. Use bayesdice_ppl.fit, "
            "or bayesdice select without --method."
        )
    if base not in METHODS:
        raise SettingsError(
            f"method: unknown method {base!r}{_meant(base)} Both bayesdice methods and "
            "bayesdice_ppl.baselines.catalog() list all."
        )
    entry = METHODS[base]
    chosen: dict[str, Any] = {}
    for option in options:
        if option not in entry.options:
            known = ", ".join(f"{base}:{each}" for each in entry.options)
            takes = f"expected one of {known}" if known else "it takes none"
            raise SettingsError(f"method: {base} has no option {option!r}; {takes}.")
        setting, value = entry.options[option]
        if setting in chosen:
            raise SettingsError(f"method: two options of {name} decide {setting}. Give one.")
        chosen[setting] = value
    return Named(":".join((base, *options)), entry, entry.decided | chosen)


def names_of(base: str) -> list[str]:
    """List every name of a method: each choice of its options."""
    by_setting: dict[str, list[str]] = {}
    for option, (setting, _) in METHODS[base].options.items():
        by_setting.setdefault(setting, [""]).append(f":{option}")
    return ["".join((base, *chosen)) for chosen in product(*by_setting.values())]


def every_name() -> tuple[str, ...]:
    """List every name that `make` takes."""
    return tuple(name for base in METHODS for name in names_of(base))


def _unmet(entry: Entry, key: str, values: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Conditions of a setting, by the other setting, that do not hold at these values."""
    (found,) = (each for each in fields(entry.maker) if each.name == key)  # type: ignore[arg-type]
    return {
        other: allowed
        for other, allowed in found.metadata.items()
        if other in values
        and not (values[other] in allowed if allowed else values[other] is not None)
    }


def _condition(other: str, allowed: tuple[Any, ...]) -> str:
    return " or ".join(f"{other}={value}" for value in allowed) if allowed else other


def _no_setting(named: Named, key: str) -> SettingsError:
    """The error of a setting that a method does not have, or that has no effect on it."""
    entry, known = named.entry, named.settings
    if key in named.open:
        users = [each.name for each in _siblings(named, key) if key in each.settings]
        verb = "uses" if len(users) == 1 else "use"
        return SettingsError(f"{key}: has no effect on {named.name}; {', '.join(users)} {verb} it.")
    if key in named.decided:
        others = [name for name, each in METHODS.items() if each.maker is entry.maker]
        options = [f":{option}" for option in entry.options]
        return SettingsError(
            f"{key}: is part of the method's name and no setting. Choose among "
            f"{', '.join([*others, *options])}."
        )
    has = f"It has {', '.join(known)}." if known else "It has none."
    return SettingsError(f"{named.name} has no setting {key!r}{_meant_setting(key, known)} {has}")


def _siblings(named: Named, key: str) -> list[Named]:
    """Names of the same class that differ only in what the effect of a setting depends on."""
    decisive = _unmet(named.entry, key, named.decided)
    same = {other: value for other, value in named.decided.items() if other not in decisive}
    every = [look_up(name) for name in every_name()]
    return [
        each
        for each in every
        if each.entry.maker is named.entry.maker and same.items() <= each.decided.items()
    ]


def _meant(base: str) -> str:
    """What may have been meant, by the names of methods and of their classes."""
    # A class's public name stands for all the methods that are made of it.
    known: dict[str, list[str]] = {}
    for name, entry in METHODS.items():
        known.setdefault(str(entry.maker.__module__).rpartition(".")[2], []).append(name)
    known |= {name: [name] for name in (*METHODS, BAYESDICE)}
    close = difflib.get_close_matches(base, known, n=3)
    names = list(dict.fromkeys(name for each in close for name in known[each]))
    return f"; did you mean {', '.join(names)}?" if names else "."


_HOW_MANY: Final = ("draws", "resamples", "samples", "n_draws", "num_samples", "n_resamples")
"""Words for how often a method draws, of which each method has at most one."""


def _meant_setting(key: str, known: Collection[str]) -> str:
    """What may have been meant: the same thing by another word, or a similar word."""
    close = [word for word in _HOW_MANY if key in _HOW_MANY and word in known]
    close = close or difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]}?" if close else "."


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


__all__ = ["METHODS", "catalog", "conditions_of", "every_name", "look_up", "make", "settings_of"]
