"""What a fit can be asked for, checked once and kept with the belief."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.svi import SviSettings
from bayesdice_ppl.moments import MomentSettings

CHOICES = {
    "inference": ("svi", "exact"),
    "penalty": ("mahalanobis", "squared"),
    "surrogate": ("markov",),
    "inner": ("guide", "exact"),
    "on_termination": ("restart", "absorb"),
    "cluster": ("transition", "episode"),
}
FLAGS = ("joint", "small_sample", "value_constraint")
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "penalty": "squared",
        "value_constraint": False,
        "joint": False,
        "small_sample": False,
    }
}


class FitSettings(NamedTuple):
    """Every choice behind a belief (hashable).

    Attributes
    ----------
    gamma
        Discount in [0, 1]; 1 is the average reward, 0 a bandit.
    inference
        ``"svi"``, or ``"exact"`` for the closed form.
    penalty
        ``"mahalanobis"`` (calibrated) or ``"squared"`` (the paper's).
    surrogate
        ``"markov"``.
    inner
        ``"guide"``: multipliers are fitted by SVI; ``"exact"``: their closed form is used; None:
        the guide up to 512 features.
    on_termination
        ``"restart"`` or ``"absorb"``.
    cluster
        The independent unit of Sigma: ``"transition"`` or ``"episode"``.
    joint
        Whether the values move together as errors on the same logs do.
    small_sample
        Whether pairs that were logged a few times widen the belief.
    value_constraint
        Whether the noise of the rewards enters.
    lam, epsilon, xi
        The chance constraint; None: epsilon = chi2_{r, xi} / (2 n), lambda = n epsilon.
    prior_sd, value_prior_sd
        Prior standard deviation of the ratio, and of the value in units of the reward's.
    draws
        Number S of posterior draws.
    svi
        How SVI optimizes.
    preset
        The preset that was asked for, or None.
    """

    gamma: float
    inference: str = "svi"
    penalty: str = "mahalanobis"
    surrogate: str = "markov"
    inner: str | None = None
    on_termination: str = "restart"
    cluster: str = "transition"
    joint: bool = True
    small_sample: bool = True
    value_constraint: bool = True
    lam: float | None = None
    epsilon: float | None = None
    xi: float = 0.95
    prior_sd: float = 10.0
    value_prior_sd: float = 10.0
    draws: int = 4000
    svi: SviSettings = SviSettings()
    preset: str | None = None

    @property
    def moments(self) -> MomentSettings:
        """The part of the settings that the moments need."""
        return MomentSettings(
            self.gamma,
            self.on_termination == "restart",
            self.prior_sd,
            self.value_prior_sd,
            centered=self.penalty == "mahalanobis" and self.value_constraint,
        )

    @property
    def by_episode(self) -> bool:
        """Whether episodes are the independent unit."""
        return self.cluster == "episode"


def make_settings(*, gamma: float, preset: str | None = None, **given: Any) -> FitSettings:
    """Fill in the preset and the defaults, and check every choice.

    Parameters
    ----------
    gamma
        Discount in [0, 1].
    preset
        ``"paper"`` for the paper's own form, or None.
    **given
        Any other field of `FitSettings`; None means its default.

    Raises
    ------
    SettingsError
        A choice is unknown, out of range, or contradicts another.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if preset is not None:
        if preset not in tuple(PRESETS):
            raise SettingsError(f"preset: expected one of {_listed(PRESETS)}, found {preset!r}.")
        for name, value in PRESETS[preset].items():
            if chosen.setdefault(name, value) != value:
                raise SettingsError(
                    f"preset={preset!r} means {name}={value!r}, but {name}={chosen[name]!r} was "
                    "given; leave one of them out."
                )
    if not _is_number(gamma) or not 0.0 <= gamma <= 1.0:
        raise SettingsError(f"gamma: expected a discount in [0, 1], found {gamma!r}.")
    unknown = sorted(set(chosen) - set(FitSettings._fields))
    if unknown:
        raise SettingsError(
            f"{unknown[0]!r} is no setting; known are {_listed(FitSettings._fields)}."
        )
    for name, choices in CHOICES.items():
        if chosen.get(name, choices[0]) not in choices:
            raise SettingsError(
                f"{name}: expected one of {_listed(choices)}, found {chosen[name]!r}."
            )
    if gamma == 1.0 and chosen.get("on_termination") == "absorb":
        raise SettingsError(
            "on_termination='absorb' has no average reward: at gamma = 1 all mass is absorbed in "
            "the end. Use 'restart', or gamma < 1."
        )
    for name in FLAGS:
        if not isinstance(chosen.get(name, True), bool):
            raise SettingsError(f"{name}: expected True or False, found {chosen[name]!r}.")
    for name in ("prior_sd", "value_prior_sd", "lam", "epsilon", "xi"):
        number = chosen.get(name, 1.0)
        if not (_is_number(number) and math.isfinite(number) and number > 0):
            raise SettingsError(f"{name}: expected a positive number, found {number!r}.")
    if not chosen.get("xi", 0.95) < 1.0:
        raise SettingsError(f"xi: expected a probability in (0, 1), found {chosen['xi']!r}.")
    if not isinstance(chosen.get("svi", SviSettings()), SviSettings):
        raise SettingsError(f"svi: expected an SviSettings, found {chosen['svi']!r}.")
    settings = FitSettings(gamma=float(gamma), preset=preset, **chosen)
    rate = settings.svi.learning_rate
    if not (_is_number(rate) and math.isfinite(rate) and rate > 0):
        raise SettingsError(f"svi.learning_rate: expected a positive number, found {rate!r}.")
    for name, number in (
        ("draws", settings.draws),
        ("svi.windows", settings.svi.windows),
        ("svi.steps", 1 if settings.svi.steps is None else settings.svi.steps),
        ("svi.particles", settings.svi.particles),
    ):
        if (
            not isinstance(number, int)
            or isinstance(number, bool)
            or number < (2 if name == "draws" else 1)
        ):
            raise SettingsError(f"{name}: expected a positive whole number, found {number!r}.")
    if settings.penalty == "squared" or not settings.value_constraint:
        if given.get("small_sample"):
            raise SettingsError(
                "small_sample=True needs the Mahalanobis penalty with the value constraint."
            )
        settings = settings._replace(small_sample=False)
    return settings


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
