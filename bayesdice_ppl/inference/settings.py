"""What a fit can be asked for, checked once and kept with the belief."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesdice_ppl import penalties, surrogates
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import FeatureChoice, one_hot
from bayesdice_ppl.inference.mcmc import NutsSettings
from bayesdice_ppl.inference.svi import SviSettings
from bayesdice_ppl.moments import MomentSettings
from bayesdice_ppl.penalties import PenaltyChoice, penalty_choice
from bayesdice_ppl.statistics import Statistic, statistic_choice
from bayesdice_ppl.surrogates import Surrogate, surrogate_choice

CHOICES = {
    "inference": ("svi", "exact", "nuts"),
    "link": ("identity", "softplus"),
    "inner": ("guide", "exact"),
    "on_termination": ("restart", "absorb"),
    "cluster": ("transition", "episode"),
}
FLAGS = ("joint", "small_sample", "value_constraint", "include_logged")
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "penalty": penalties.squared(),
        "value_constraint": False,
        "joint": False,
        "small_sample": False,
    }
}


class Normalization(NamedTuple):
    """The normalization as a chance constraint of its own, P(ell_1 <= epsilon_1) >= xi_1.

    Attributes
    ----------
    lam, epsilon, xi
        lambda_1, epsilon_1 and xi_1; None: epsilon_1 = chi2_{1, xi_1} / (2 n), lambda_1 = n
        epsilon_1. It is priced by Markov's bound whatever the surrogate is.
    """

    lam: float | None = None
    epsilon: float | None = None
    xi: float = 0.95


class FitSettings(NamedTuple):
    """Every choice behind a belief (hashable).

    Attributes
    ----------
    gamma
        Discount in [0, 1]; 1 is the average reward, 0 a bandit.
    inference
        ``"svi"``; ``"exact"`` for the closed form; ``"nuts"`` for draws from the model itself.
    penalty
        Which penalty; `mahalanobis` is the calibrated one, `squared` the paper's.
    surrogate
        What stands in for P(ell > epsilon).
    link
        ``"identity"``, or ``"softplus"`` for ratios that are never negative.
    inner
        ``"guide"``: multipliers are fitted by SVI; ``"exact"``: their closed form is used; None:
        the guide up to 512 features, where the best multipliers are affine.
    on_termination
        ``"restart"`` or ``"absorb"``.
    features
        What ratio and multipliers can tell apart.
    action_draws
        Actions drawn in each state for the mean over a continuous policy.
    cluster
        The independent unit of Sigma: ``"transition"`` or ``"episode"``.
    joint
        Whether the values move together as errors on the same logs do.
    small_sample
        Whether pairs that were logged a few times widen the belief.
    value_constraint
        Whether the noise of the rewards enters.
    lam, epsilon, xi
        The chance constraint; None: epsilon = chi2_{r, xi} / (2 n), lambda = n epsilon. A lambda
        of ``"search"`` is the least at which P_q(ell <= epsilon) >= xi.
    normalization
        The normalization as a chance constraint of its own, or None: one of the other rows.
    statistic
        Of the one-step reward, what a value is: the first is the belief's ``value``.
    prior_sd, value_prior_sd
        Prior standard deviation of the ratio, and of the value in units of the reward's.
    draws
        Number S of posterior draws.
    svi, nuts
        How SVI optimizes, and how NUTS samples.
    include_logged
        Whether the policy that logged is one more policy of the belief, estimated from the log.
    preset
        The preset that was asked for, or None.
    """

    gamma: float
    inference: str = "svi"
    penalty: PenaltyChoice = penalties.mahalanobis()
    surrogate: Surrogate = surrogates.markov()
    link: str = "identity"
    inner: str | None = None
    on_termination: str = "restart"
    features: FeatureChoice = one_hot()
    action_draws: int = 32
    cluster: str = "transition"
    joint: bool = True
    small_sample: bool = True
    value_constraint: bool = True
    lam: float | str | None = None
    epsilon: float | None = None
    xi: float = 0.95
    statistic: tuple[Statistic, ...] = (Statistic("mean"),)
    normalization: Normalization | None = None
    prior_sd: float = 10.0
    value_prior_sd: float = 10.0
    draws: int = 4000
    svi: SviSettings = SviSettings()
    nuts: NutsSettings = NutsSettings()
    include_logged: bool = False
    preset: str | None = None

    @property
    def moments(self) -> MomentSettings:
        """The part of the settings that the moments need."""
        return MomentSettings(
            self.gamma,
            self.on_termination == "restart",
            self.prior_sd,
            self.value_prior_sd,
            centered=self.penalty == penalties.mahalanobis()
            and self.value_constraint
            and self.normalization is None,
            tabular=self.tabular,
            linked=self.link != "identity",
            own_normalization=self.normalization is not None,
        )

    @property
    def tabular(self) -> bool:
        """Whether features are one-hot over the logged pairs."""
        return self.features == one_hot()

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
    if "penalty" in chosen:
        chosen["penalty"] = penalty_choice(chosen["penalty"])
    if "surrogate" in chosen:
        chosen["surrogate"] = surrogate_choice(chosen["surrogate"])
    if "statistic" in chosen:
        chosen["statistic"] = _statistics(chosen["statistic"])
    if preset is not None:
        if preset not in tuple(PRESETS):
            raise SettingsError(f"preset: expected one of {_listed(PRESETS)}, found {preset!r}.")
        for name, value in PRESETS[preset].items():
            if chosen.setdefault(name, value) != value:
                raise SettingsError(
                    f"preset={preset!r} means {name}={value}, but {name}={chosen[name]} was "
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
        if name == "lam" and number == "search":
            continue
        _check_positive(name, number)
    if not chosen.get("xi", 0.95) < 1.0:
        raise SettingsError(f"xi: expected a probability in (0, 1), found {chosen['xi']!r}.")
    if "normalization" in chosen:
        chosen["normalization"] = _normalization(chosen["normalization"])
    if not isinstance(chosen.get("svi", SviSettings()), SviSettings):
        raise SettingsError(f"svi: expected an SviSettings, found {chosen['svi']!r}.")
    if not isinstance(chosen.get("nuts", NutsSettings()), NutsSettings):
        raise SettingsError(f"nuts: expected a NutsSettings, found {chosen['nuts']!r}.")
    if not isinstance(chosen.get("features", one_hot()), FeatureChoice):
        raise SettingsError(
            "features: expected a feature map such as bd.features.fourier(200), found "
            f"{chosen['features']!r}."
        )
    in_sigma = chosen.get("penalty", penalties.mahalanobis()) == penalties.mahalanobis()
    if chosen.get("features", one_hot()) != one_hot() and in_sigma:
        # Elsewhere a residual is correlated within an episode, for want of the action value.
        chosen.setdefault("cluster", "episode")
    settings = FitSettings(gamma=float(gamma), preset=preset, **chosen)
    _check_engine(settings)
    rate = settings.svi.learning_rate
    if not (_is_number(rate) and math.isfinite(rate) and rate > 0):
        raise SettingsError(f"svi.learning_rate: expected a positive number, found {rate!r}.")
    for name, number in (
        ("draws", settings.draws),
        ("action_draws", settings.action_draws),
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
    if settings.action_draws % 2 or settings.action_draws < 4:
        raise SettingsError(
            "action_draws: expected an even number of at least 4 (actions are drawn in mirrored "
            f"pairs), found {settings.action_draws}."
        )
    calibrated = settings.penalty == penalties.mahalanobis() and settings.value_constraint
    if not calibrated or not settings.tabular:
        if given.get("small_sample"):
            raise SettingsError(
                "small_sample=True needs the Mahalanobis penalty with the value constraint, and "
                "one-hot features, whose visits it counts."
            )
        settings = settings._replace(small_sample=False)
    return settings


def _check_positive(name: str, number: Any) -> None:
    if not (_is_number(number) and math.isfinite(number) and number > 0):
        raise SettingsError(f"{name}: expected a positive number, found {number!r}.")


def _normalization(given: Any) -> Normalization | None:
    if isinstance(given, bool):
        return Normalization() if given else None
    if not isinstance(given, Normalization):
        raise SettingsError(
            f"normalization: expected True, or a bd.inference.Normalization, found {given!r}."
        )
    for name, number in given._asdict().items():
        if number is not None:
            _check_positive(f"normalization.{name}", number)
    if not given.xi < 1.0:
        raise SettingsError(
            f"normalization.xi: expected a probability in (0, 1), found {given.xi!r}."
        )
    return given


def _statistics(given: Any) -> tuple[Statistic, ...]:
    one = isinstance(given, str | Statistic)
    if not one and not (isinstance(given, list | tuple) and given):
        raise SettingsError(
            f"statistic: expected one such as bd.statistics.cvar(0.1), or a list of them, found "
            f"{given!r}."
        )
    found = tuple(statistic_choice(each) for each in ((given,) if one else given))
    names = [str(each) for each in found]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(
                f"statistic: {name} is asked for twice; give functions names of their own."
            )
    return found


def affine_multipliers(settings: FitSettings) -> bool:
    """Whether the best multipliers are affine in the latent numbers, as the guide's are.

    They are where the ratio is linear, f is a square, and the loss is paid for as it is.
    """
    return (
        settings.penalty.quadratic
        and settings.surrogate == surrogates.markov()
        and settings.link == "identity"
    )


def _check_engine(settings: FitSettings) -> None:
    """Refuse what the engine cannot do, and say which one can."""
    if settings.inference == "exact":
        for name, holds in (
            (f"the penalty {settings.penalty}", settings.penalty.quadratic),
            (f"the surrogate {settings.surrogate}", settings.surrogate == surrogates.markov()),
            (f"the link {settings.link}", settings.link == "identity"),
        ):
            if not holds:
                raise SettingsError(
                    f"inference='exact': {name} has no closed form; use 'svi' or 'nuts'."
                )
    if settings.inner == "guide" and not affine_multipliers(settings):
        raise SettingsError(
            "inner='guide': its multipliers are affine, and the best ones are so only with a "
            "quadratic penalty, Markov's surrogate and the identity link; use inner='exact'."
        )
    if settings.inference == "nuts":
        if settings.surrogate.fitted:
            raise SettingsError(
                f"inference='nuts' draws from q and fits no level: give the surrogate one, such as "
                f"{settings.surrogate}(0.5), or use 'svi'."
            )
        if settings.inner == "guide":
            raise SettingsError(
                "inference='nuts' has no guide: the multipliers are at their maximum "
                "(inner='exact')."
            )
        for name, least in (("chains", 2), ("warmup", 1), ("max_tree_depth", 1)):
            number = getattr(settings.nuts, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise SettingsError(
                    f"nuts.{name}: expected a whole number of at least {least}, found {number!r}."
                )
        if settings.draws < 2 * settings.nuts.chains:
            raise SettingsError(
                f"draws: expected at least 2 for each of {settings.nuts.chains} chains, found "
                f"{settings.draws}."
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
