"""What a fit can be asked for: every choice with its default, checked once, kept with the belief.

Choices that belong together are one frozen object: `Prior`, `Constraint`, `Numerics`, and the
engine. `FitSettings` holds them all. `flat_settings` reads the same choices from flat names, as the
command line takes them and a belief's attribute ``settings`` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, final

from bayesdice_ppl import checks
from bayesdice_ppl.constraint import Constraint, penalties
from bayesdice_ppl.constraint.penalties import penalty_choice
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features import FeatureChoice, one_hot
from bayesdice_ppl.inference import (
    Drawing,
    Engine,
    Exact,
    FitForm,
    MinMax,
    Nuts,
    Svi,
    TrainingEngine,
    engine_choice,
    no_closed_form,
)
from bayesdice_ppl.models import LinearModel, RatioModel, TrainedModel, linear, model_choice
from bayesdice_ppl.moments import MomentSettings, Prior
from bayesdice_ppl.statistics import Statistic, mean, statistic_choice

TERMINATIONS = ("restart", "absorb")
BEHAVIORS = ("logged", "cloned", "none")
CLUSTERS = ("transition", "episode")
MOST_WEIGHTS = 10_000_000
"""Numbers in the draws of all weights past which a belief has none, unless it is asked for them."""


@final
@dataclass(frozen=True)
class Numerics:
    """Numbers that set the cost of a fit and its Monte Carlo error.

    Attributes
    ----------
    action_draws
        Even number of actions drawn in each state, for the expectation over a policy of continuous
        actions whose mean features have no closed form. The standard error that this leaves in a
        value is reported; it is 0 for a `GaussianPolicy` where the features know their mean.
    folds
        Number of folds, by episode, for the held-out loss.
    jackknife
        Most groups of episodes that are left out in turn, to see how far a value on features moves.
        At least 10. Half of the variance that this shows beyond the belief's own is added. 0: none
        are left out.
    weights
        Whether a belief has draws of the ratio at each pair, and of the loss. Without them the
        closed form on labels takes a small part of time and memory. None: it has, where these
        draws are at most 10 million numbers, or where there is no closed form of the values alone:
        with another model, penalty, price or statistic, and with episodes as the unit.

    Raises
    ------
    SettingsError
        A number is out of its range.
    """

    action_draws: int = 32
    folds: int = 5
    jackknife: int = 25
    weights: bool | None = None

    def __post_init__(self) -> None:
        # Actions are drawn in mirrored pairs.
        checks.even("action_draws", self.action_draws, 4)
        checks.whole("folds", self.folds, 2)
        if self.jackknife != 0:
            checks.whole("jackknife", self.jackknife, 10)
        if self.weights is not None:
            checks.flag("weights", self.weights)


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "penalty": penalties.squared(),
        "value_constraint": False,
        "small_sample": False,
        "joint": False,
    }
}
"""Choices that go together, by name; each is a field of `Constraint` or of `FitSettings`."""


@final
@dataclass(frozen=True)
class FitSettings:
    """Every choice behind a belief (hashable).

    Attributes
    ----------
    gamma
        Discount in [0, 1]: 0 is a bandit, 1 the average reward.
    features
        What ratio and multipliers can tell apart, from `bayesdice_ppl.features`.
    model
        The model of the ratio.
    inference
        The engine.
    statistic
        What a value is: statistics of the one-step reward. The first is the belief's ``value``.
    behavior
        Where the logging policy is known from: ``"logged"`` (the log's propensities), ``"cloned"``
        or ``"none"``.
    on_termination
        ``"restart"``: a fresh start follows; ``"absorb"``: reward 0 for ever.
    cluster
        The independent unit: ``"transition"``, ``"episode"``, a column of the log, two columns that
        cross, or None: the log decides.
    joint
        Whether the values move together as errors on the same logs do.
    draws
        Number S of posterior draws.
    include_logged
        Whether the belief has the logging policy too, estimated from the log.
    prior, constraint, numerics
        The prior's widths, the chance constraint, and what sets cost and Monte Carlo error.
    preset
        The preset that was asked for, or None.

    Raises
    ------
    SettingsError
        A choice is unknown, out of range, or contradicts another.
    """

    gamma: float
    features: FeatureChoice = one_hot()  # noqa: RUF009  an immutable NamedTuple
    model: RatioModel = linear()  # noqa: RUF009
    inference: Engine = Svi()  # noqa: RUF009
    statistic: tuple[Statistic, ...] = (mean(),)
    behavior: str = "none"
    on_termination: str = "restart"
    cluster: str | tuple[str, ...] | None = None
    joint: bool = True
    draws: int = 4000
    include_logged: bool = False
    prior: Prior = field(default_factory=Prior)
    constraint: Constraint = field(default_factory=Constraint)
    numerics: Numerics = field(default_factory=Numerics)
    preset: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            gamma: float,
            *,
            features: FeatureChoice = ...,
            model: RatioModel | str = ...,
            inference: Engine | str = ...,
            statistic: Statistic | str | tuple[Statistic | str, ...] = ...,
            behavior: str = ...,
            on_termination: str = ...,
            cluster: str | tuple[str, ...] | None = ...,
            joint: bool = ...,
            draws: int = ...,
            include_logged: bool = ...,
            prior: Prior = ...,
            constraint: Constraint = ...,
            numerics: Numerics = ...,
            preset: str | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._read("gamma", checks.discount)
        self._read("model", model_choice)
        self._read("inference", engine_choice)
        self._read("statistic", _statistics)
        checks.one_of("behavior", self.behavior, BEHAVIORS)
        if self.behavior_known and self.tabular:
            raise SettingsError(
                f"behavior={self.behavior!r}: expected features other than one-hot, which have a "
                "weight for each pair and gain nothing from it. Leave behavior out."
            )
        checks.one_of("on_termination", self.on_termination, TERMINATIONS)
        checks.flag("joint", self.joint)
        checks.flag("include_logged", self.include_logged)
        checks.whole("draws", self.draws, 2)
        for name, kind in (("prior", Prior), ("constraint", Constraint), ("numerics", Numerics)):
            if not isinstance(getattr(self, name), kind):
                raise SettingsError(
                    f"{name}: expected a bd.{kind.__name__}(...), found {getattr(self, name)!r}."
                )
        if not isinstance(self.features, FeatureChoice):
            raise SettingsError(
                "features: expected a feature map such as bd.features.fourier(200), found "
                f"{self.features!r}."
            )
        self._read("cluster", _cluster)
        if self.gamma == 1.0 and self.on_termination == "absorb":
            raise SettingsError(
                "on_termination='absorb': expected gamma below 1, found gamma=1. In the end all "
                "mass is absorbed, and there is no average reward. Use 'restart'."
            )
        if self.constraint.small_sample and not self.tabular:
            raise SettingsError(
                f"small_sample=True: expected one-hot features, found {self.features}. Leave "
                "small_sample out."
            )
        if self.constraint.value_law.needs_errors and not self.tabular:
            raise SettingsError(
                f"value_law={str(self.constraint.value_law)!r}: expected one-hot features, found "
                f"{self.features}. Leave value_law out."
            )
        self._check_rewards()
        directions = self.model.directions if isinstance(self.model, LinearModel) else None
        if self.tabular and directions is not None:
            raise SettingsError(
                f"model: expected no directions with one-hot features, found {self.model}. They "
                "have a weight for each pair. Leave directions out."
            )
        if self.constraint.inner == "guide" and not self.form.affine_multipliers:
            raise SettingsError(
                "inner='guide': expected a quadratic penalty, Markov's surrogate and a linear "
                f"ratio, found the penalty {self.constraint.penalty}, the surrogate "
                f"{self.constraint.surrogate} and the model {self.model}. The guide's multipliers "
                "are affine, and the best ones are not. Use inner='exact'."
            )
        if self.needs_training and not isinstance(self.inference, TrainingEngine):
            raise SettingsError(
                f"inference={self.inference.name!r}: expected an engine that trains the model "
                f"{self.model}, such as bd.inference.MinMax(). Leave inference out."
            )
        self.inference.check(self.form, self.draws)

    def _read(self, name: str, read: Callable[[Any], Any]) -> None:
        object.__setattr__(self, name, read(getattr(self, name)))

    def _check_rewards(self) -> None:
        kind = self.prior.rewards
        if kind is None or (self.small_sample and self.plain):
            return
        found = f"the features {self.features}"
        if self.tabular:
            found = f"the statistic {', '.join(map(str, self.statistic))}"
            if self.plain:
                found = f"the penalty {self.constraint.penalty}"
                found += f" with value_constraint={self.constraint.value_constraint}"
                found += f" and small_sample={self.constraint.small_sample}"
        raise SettingsError(
            f"prior.rewards={kind.flat!r}: expected the mean reward, one-hot features, the "
            f"Mahalanobis penalty, the value constraint and the small-sample rule, found {found}. "
            "Leave rewards out of the prior."
        )

    @property
    def tabular(self) -> bool:
        """Whether features are one-hot over the logged pairs."""
        return self.features == one_hot()

    @property
    def sees_points(self) -> bool:
        """Whether the model may look at the points themselves; a linear one takes the features."""
        return not isinstance(self.model, LinearModel)

    @property
    def needs_training(self) -> bool:
        """Whether the model is one of networks that are trained."""
        return isinstance(self.model, TrainedModel) and self.model.trained

    @property
    def behavior_known(self) -> bool:
        """Whether the action ratio is known, from the log or from a clone."""
        return self.behavior != "none"

    @property
    def small_sample(self) -> bool:
        """Whether rarely logged pairs widen the belief."""
        constraint = self.constraint
        return self.tabular and constraint.calibrated and constraint.small_sample is not False

    @property
    def clusters(self) -> tuple[str, ...]:
        """Columns of the log that were asked for as the independent unit."""
        if self.cluster is None or self.cluster in CLUSTERS:
            return ()
        return (self.cluster,) if isinstance(self.cluster, str) else self.cluster

    @property
    def by_episode(self) -> bool:
        """Whether episodes are the unit of Sigma, and not transitions."""
        if self.cluster in CLUSTERS:
            return self.cluster == "episode"
        # Features that cannot express the action value leave residuals that are correlated within
        # an episode.
        return self.constraint.penalty.calibrated and not self.tabular

    @property
    def jackknife(self) -> int:
        """Groups of episodes that are left out in turn; 0 where the form has no use for it."""
        suits = not self.tabular and self.constraint.calibrated and self.by_episode
        return self.numerics.jackknife if suits else 0

    @property
    def plain(self) -> bool:
        """Whether the mean reward is the only statistic."""
        return len(self.statistic) == 1 and self.statistic[0].plain

    def eliminates(self, n_policies: int, n_pairs: int) -> bool:
        """Whether the values are found alone, with the weights of all pairs eliminated.

        Parameters
        ----------
        n_policies, n_pairs
            Number of candidates and of logged pairs.

        Raises
        ------
        SettingsError
            It was asked for, and cannot be done.
        """
        able = self.plain and self.form.eliminates and self.inference == Exact()
        asked = self.numerics.weights
        if asked is False and not able:
            raise SettingsError(
                "numerics.weights=False: expected the closed form on labels with the default "
                "model, penalty and price, transitions as the unit and the mean reward, as only "
                "there values are found without weights. Leave weights out."
            )
        many = self.draws * n_policies * n_pairs > MOST_WEIGHTS
        return able and (many if asked is None else not asked)

    @property
    def value_implied(self) -> bool:
        """Whether the value follows exactly from a ratio that is not linear."""
        return not (self.model.linear or self.constraint.value_constraint)

    @property
    def form(self) -> FitForm:
        """What inference needs of the settings."""
        constraint = self.constraint
        own = constraint.normalization is not None
        return FitForm(
            moments=MomentSettings(
                self.gamma,
                self.on_termination == "restart",
                centered=constraint.calibrated and not own,
                tabular=self.tabular,
                own_normalization=own,
            ),
            constraint=constraint,
            model=self.model,
            # The metric of other penalties is not the residual's own: there a prior that differs
            # from pair to pair would decide.
            prior=self.prior
            if constraint.penalty.calibrated
            else replace(self.prior, rare_share=0.0),
            by_episode=self.by_episode,
            small_sample=self.small_sample,
            jackknife=self.jackknife,
        )

    @property
    def engine_words(self) -> str:
        """How the posterior is found, and whether it has a closed form."""
        missing = no_closed_form(self.constraint, self.model)
        form = "the posterior has a closed form"
        if missing is not None:
            form = f"{missing} has no closed form"
        return f"{self.inference.name} ({form})"

    @property
    def drawing(self) -> Drawing:
        """How the belief is drawn."""
        return Drawing(self.draws, self.joint, len(self.statistic))

    @property
    def flat(self) -> dict[str, Any]:
        """Every choice under its flat name, in values that JSON can hold."""
        constraint, normalization = self.constraint, self.constraint.normalization
        engine = self.inference
        return {
            "gamma": self.gamma,
            "inference": engine.name,
            "penalty": str(constraint.penalty),
            "surrogate": str(constraint.surrogate),
            "model": str(self.model),
            "link": str(self.model.link) if isinstance(self.model, LinearModel) else None,
            "behavior": self.behavior,
            "inner": constraint.inner,
            "value_law": str(constraint.value_law),
            "on_termination": self.on_termination,
            "features": str(self.features),
            "action_draws": self.numerics.action_draws,
            "cluster": self.cluster,
            "jackknife": self.numerics.jackknife,
            "weights": self.numerics.weights,
            "joint": self.joint,
            "small_sample": self.small_sample,
            "value_constraint": constraint.value_constraint,
            "lam": constraint.lam,
            "epsilon": constraint.epsilon,
            "xi": constraint.xi,
            "statistic": [str(statistic) for statistic in self.statistic],
            "normalization": None if normalization is None else asdict(normalization),
            "prior_sd": self.prior.ratio_sd,
            "value_prior_sd": self.prior.value_sd,
            "rare_share": self.prior.rare_share,
            "unseen": self.prior.unseen,
            "rewards": None if self.prior.rewards is None else self.prior.rewards.flat,
            "draws": self.draws,
            "svi": (engine if isinstance(engine, Svi) else Svi())._asdict(),
            "nuts": (engine if isinstance(engine, Nuts) else Nuts())._asdict(),
            **({"minmax": engine._asdict()} if isinstance(engine, MinMax) else {}),
            "include_logged": self.include_logged,
            "preset": self.preset,
        }


GROUPS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "prior": (
        Prior,
        {
            "prior_sd": "ratio_sd",
            "value_prior_sd": "value_sd",
            "rare_share": "rare_share",
            "unseen": "unseen",
            "rewards": "rewards",
        },
    ),
    "constraint": (Constraint, {each.name: each.name for each in fields(Constraint)}),
    "numerics": (Numerics, {each.name: each.name for each in fields(Numerics)}),
}
"""Group -> its class, and its fields by flat name."""


def with_preset(preset: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill a preset's choices in.

    Parameters
    ----------
    preset
        Its name, or None.
    given
        What was asked for beside it; None means that nothing was. What a `Constraint` leaves at
        its default counts as not asked for.

    Raises
    ------
    SettingsError
        There is no such preset, or it contradicts what was asked for.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if preset is None:
        return chosen
    means, plain = _preset(preset), Constraint()
    constraint = chosen.setdefault("constraint", plain)
    own = {name: value for name, value in means.items() if hasattr(plain, name)}
    asked = {name: getattr(constraint, name) for name in own}
    changed = {name: value for name, value in asked.items() if value != getattr(plain, name)}
    _refuse_contradiction(preset, {**chosen, **changed})
    chosen["constraint"] = replace(constraint, **own)
    others = {name: value for name, value in means.items() if name not in own}
    return {**others, **chosen, "preset": preset}


def _preset(name: str) -> dict[str, Any]:
    return PRESETS[checks.one_of("preset", name, PRESETS)]


def _refuse_contradiction(preset: str, given: Mapping[str, Any]) -> None:
    """Refuse a choice that a preset makes otherwise."""
    for name, value in _preset(preset).items():
        found = given.get(name, value)
        if found != value:
            raise SettingsError(
                f"preset={preset!r} means {name}={value}, but {name}={found} was given. Leave one "
                "of them out."
            )


def flat_settings(*, gamma: float, preset: str | None = None, **given: Any) -> FitSettings:
    """Make settings from flat names; None means the default.

    Parameters
    ----------
    gamma
        Discount in [0, 1].
    preset
        ``"paper"`` for the paper's own form, or None.
    **given
        Fields of `FitSettings`, of `Constraint` and of `Numerics`; ``prior_sd``,
        ``value_prior_sd``, ``rare_share``, ``unseen`` and ``rewards`` of `Prior`; ``link`` of the
        linear model.

    Raises
    ------
    SettingsError
        A choice is unknown, out of range, or contradicts another.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if preset is not None:
        read = {"penalty": penalty_choice(chosen["penalty"])} if "penalty" in chosen else {}
        _refuse_contradiction(preset, {**chosen, **read})
    if "link" in chosen:
        if "model" in chosen:
            raise SettingsError(
                f"link: expected no model beside it, found the model {chosen['model']}. Write "
                "model=bd.models.linear(link), or leave link out."
            )
        chosen["model"] = linear(chosen.pop("link"))
    known = {each.name for each in fields(FitSettings)} | {"link"}
    for group, (kind, names) in GROUPS.items():
        own = {names[name]: chosen.pop(name) for name in tuple(chosen) if name in names}
        if own:
            chosen[group] = replace(chosen.get(group, kind()), **own)
        known |= set(names)
    unknown = sorted(set(chosen) - known)
    if unknown:
        place = _moved(unknown[0])
        raise SettingsError(
            f"settings: expected one of {checks.listed(sorted(known), 99)}, found {unknown[0]!r}."
            + (f" Write {place}." if place else "")
        )
    return FitSettings(gamma, **with_preset(preset, chosen))


def is_setting(name: str) -> bool:
    """Whether `FitSettings` has a field of this name."""
    return name in {each.name for each in fields(FitSettings)}


def _moved(name: str) -> str | None:
    """Where a flat setting of `fit` is given now; None if there never was such a setting."""
    for group, (kind, names) in GROUPS.items():
        if name in names:
            return f"{group}=bd.{kind.__name__}({names[name]}=...)"
    return {
        "link": "model=bd.models.linear(link=...)",
        "svi": "inference=bd.inference.Svi(...)",
        "nuts": "inference=bd.inference.Nuts(...)",
        "minmax": "inference=bd.inference.MinMax(...)",
    }.get(name)


def refuse_moved(function: str, given: Mapping[str, Any]) -> None:
    """Refuse names that are not settings, or no longer are.

    Raises
    ------
    SettingsError
        A setting has moved into an object; the message says which.
    TypeError
        There never was such a setting.
    """
    for name in given:
        place = _moved(name)
        if place is None:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        raise SettingsError(f"{name}: this setting has moved; write {function}(..., {place}).")


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
                f"statistic: expected each once, found {name} twice. Give functions different "
                "names."
            )
    return found


def _cluster(given: Any) -> str | tuple[str, ...] | None:
    """Read the independent unit; whether a log has its columns is seen when it is read."""
    if given is None or (isinstance(given, str) and given):
        return given
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    names = tuple(given) if listed else ()
    if len(names) == 1 and isinstance(names[0], str) and names[0]:
        return names[0]
    apart = len(names) == 2 and names[0] != names[1] and not set(names) & set(CLUSTERS)
    if not (apart and all(isinstance(name, str) and name for name in names)):
        raise SettingsError(
            "cluster: expected 'transition', 'episode', the name of a column of the log, or two "
            f"different columns, found {given!r}."
        )
    return names
