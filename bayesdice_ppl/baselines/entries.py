"""The table of the methods: a name, what makes it, and one sentence each; one entry a method.

Some settings of a maker have an effect with some of its other settings alone, such as the number of
resamples with the bootstrap's interval. An entry says which, so that they can be refused elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, final

from bayesdice_ppl.baselines.bdqn import bdqn
from bayesdice_ppl.baselines.beta_bandit import beta_bandit
from bayesdice_ppl.baselines.coin_dice import coin_dice
from bayesdice_ppl.baselines.dirichlet_model import dirichlet_model
from bayesdice_ppl.baselines.doubly_robust import doubly_robust
from bayesdice_ppl.baselines.dual_dice import dual_dice
from bayesdice_ppl.baselines.fitted_q import fitted_q
from bayesdice_ppl.baselines.importance_sampling import importance_sampling
from bayesdice_ppl.baselines.interface import Baseline
from bayesdice_ppl.baselines.intervals import INTERVALS
from bayesdice_ppl.baselines.lagrangian_dice import PRESETS, lagrangian_dice
from bayesdice_ppl.baselines.lstdq import lstdq
from bayesdice_ppl.baselines.lstdq_bootstrap import lstdq_bootstrap
from bayesdice_ppl.baselines.marginalized import marginalized
from bayesdice_ppl.baselines.minimax_weight import minimax_weight


@final
class With(NamedTuple):
    """What another setting has to be for a setting to have an effect.

    Attributes
    ----------
    setting
        The other setting.
    values
        What it may be; empty: anything but None.
    """

    setting: str
    values: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        """Whether the other setting is what it has to be."""
        return value in self.values if self.values else value is not None

    def __str__(self) -> str:
        if not self.values:
            return self.setting
        named = [value for value in self.values if value is not None] or self.values
        return " or ".join(f"{self.setting}={value}" for value in named)


type Uses = Mapping[str, tuple[With, ...]]
"""Setting -> what others have to be for it to have an effect."""


@final
class Entry(NamedTuple):
    """A method as the registry knows it.

    Attributes
    ----------
    maker
        What makes it.
    sentence
        What it does, in one sentence.
    fixed
        Settings of the maker that the name stands for.
    options
        Words that may follow its name after colons.
    uses
        Of settings that do not always have an effect, what the others have to be for that.
    """

    maker: Callable[..., Baseline]
    sentence: str
    fixed: Mapping[str, Any] = MappingProxyType({})
    options: tuple[str, ...] = ()
    uses: Uses = MappingProxyType({})


OPTIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        **{kind: ("interval", kind) for kind in INTERVALS},
        "fitted": ("behavior", "fitted"),
        "dual_dice": ("preset", "dual_dice"),
        "minimax_weight": ("preset", "minimax_weight"),
    }
)
"""Setting that each option stands for, and its value."""

_WEIGHTED = (*INTERVALS, "fitted")

_BOUNDED = With("interval", ("bernstein", "hoeffding"))
_RESAMPLED: Uses = {"resamples": (With("interval", ("bca",)),)}
_SAMPLED: Uses = {
    **_RESAMPLED,
    "max_weight": (_BOUNDED,),
    # Without a largest weight the range is that of the estimates, whatever rewards there can be.
    "reward_range": (_BOUNDED, With("max_weight")),
}
# Features that are given may know of no labels, and nothing of which were logged.
_ON_ROWS: Uses = {"renormalize": (With("features", (None,)),)}


def _of_kind(kind: With, *settings: str) -> dict[str, tuple[With, ...]]:
    """Settings that belong to one kind of a method, `renormalize` to one-hot features of it too."""
    return {key: (kind, *_ON_ROWS.get(key, ())) for key in settings}


_LINEAR = ("ridge", "features", "renormalize")
_NETWORK = ("refits", "steps", "batch", "width", "learning_rate", "action_draws")
_FITTED_Q = _of_kind(With("model", ("linear",)), *_LINEAR) | _of_kind(
    With("model", ("mlp",)), *_NETWORK
)
_MINIMAX = _of_kind(With("critics", ("linear",)), *_LINEAR) | _of_kind(
    With("critics", ("kernel",)), "n_inducing", "prior_sd"
)
_DIRICHLET = _of_kind(With("reward", ("beta",)), "reward_prior", "reward_values")


def _lagrangian(preset: str | None = None) -> Uses:
    # A switch that is None is as the preset says.
    normalized = preset is not None and PRESETS[preset].get("normalization", False)
    held = (True, None) if normalized else (True,)
    return {**_ON_ROWS, "normalization_slack": (With("normalization", held),)}


METHODS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "is": Entry(
            importance_sampling,
            "Episodes weighted by the ratio of all their actions.",
            {"kind": "trajectory", "normalized": False},
            _WEIGHTED,
            _SAMPLED,
        ),
        "pdis": Entry(
            importance_sampling,
            "Rewards weighted by the ratio of the actions up to them.",
            {"kind": "per_step", "normalized": False},
            _WEIGHTED,
            _SAMPLED,
        ),
        "wis": Entry(
            importance_sampling,
            "As is, with weights that average one.",
            {"kind": "trajectory", "normalized": True},
            _WEIGHTED,
            _SAMPLED,
        ),
        "wpdis": Entry(
            importance_sampling,
            "As pdis, with weights that average one at each step.",
            {"kind": "per_step", "normalized": True},
            _WEIGHTED,
            _SAMPLED,
        ),
        "dr": Entry(
            doubly_robust,
            "Doubly robust: a model's value, corrected by weighted errors.",
            {"weighted": False},
            _WEIGHTED,
            _RESAMPLED,
        ),
        "wdr": Entry(
            doubly_robust,
            "As dr, with weights that average one at each step.",
            {"weighted": True},
            _WEIGHTED,
            _RESAMPLED,
        ),
        "mis": Entry(
            marginalized,
            "Rewards weighted by the stationary ratio, summed by episode.",
            options=INTERVALS,
            uses=_SAMPLED,
        ),
        "lstdq": Entry(
            lstdq, "Least-squares temporal differences for the action value.", uses=_ON_ROWS
        ),
        "fqe": Entry(
            fitted_q,
            "Fitted Q evaluation with a linear model, until it stands still.",
            {"model": "linear"},
            uses=_FITTED_Q,
        ),
        "fqe_mlp": Entry(
            fitted_q, "Fitted Q evaluation with a network.", {"model": "mlp"}, uses=_FITTED_Q
        ),
        "mwl": Entry(
            minimax_weight,
            "Minimax weight learning, linear critics.",
            {"critics": "linear"},
            uses=_MINIMAX,
        ),
        "mwl_kernel": Entry(
            minimax_weight,
            "Minimax weight learning for vectors, critics of a kernel.",
            {"critics": "kernel"},
            uses=_MINIMAX,
        ),
        "mql": Entry(
            lagrangian_dice,
            "Minimax Q learning, linear.",
            {"preset": "minimax_q"},
            uses=_lagrangian("minimax_q"),
        ),
        "dual_dice": Entry(dual_dice, "DualDICE in closed form.", uses=_ON_ROWS),
        "gen_dice": Entry(
            lagrangian_dice,
            "GenDICE: a positive, normalized ratio.",
            {"preset": "gen_dice"},
            uses=_lagrangian("gen_dice"),
        ),
        "gradient_dice": Entry(
            lagrangian_dice,
            "GradientDICE: as gen_dice, of any sign.",
            {"preset": "gradient_dice"},
            uses=_lagrangian("gradient_dice"),
        ),
        "best_dice": Entry(
            lagrangian_dice,
            "What the authors of the regularized Lagrangian found best.",
            {"preset": "best_dice"},
            uses=_lagrangian("best_dice"),
        ),
        "lagrangian_dice": Entry(
            lagrangian_dice,
            "The regularized Lagrangian, all switches off.",
            options=("dual_dice", "minimax_weight"),
            # Neither option holds the ratio's mean at 1.
            uses=_lagrangian(),
        ),
        "coin_dice": Entry(
            coin_dice, "CoinDICE: values over all reweightings the log bears out.", uses=_ON_ROWS
        ),
        "dirichlet": Entry(
            dirichlet_model,
            "Posterior over tabular worlds, each drawn one solved exactly.",
            uses=_DIRICHLET,
        ),
        "lstdq_bootstrap": Entry(
            lstdq_bootstrap, "LSTDQ under the Bayesian bootstrap.", uses=_ON_ROWS
        ),
        "bdqn": Entry(bdqn, "A Q network with a Bayesian last layer."),
        "beta": Entry(beta_bandit, "Conjugate posterior of a bandit with two rewards."),
    }
)
"""The methods, in the order in which they are listed."""
