"""The table of the methods: a name, what makes it, and one sentence each; one entry a method."""

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
from bayesdice_ppl.baselines.lagrangian_dice import lagrangian_dice
from bayesdice_ppl.baselines.lstdq import lstdq
from bayesdice_ppl.baselines.lstdq_bootstrap import lstdq_bootstrap
from bayesdice_ppl.baselines.marginalized import marginalized
from bayesdice_ppl.baselines.minimax_weight import minimax_weight


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
    """

    maker: Callable[..., Baseline]
    sentence: str
    fixed: Mapping[str, Any] = MappingProxyType({})
    options: tuple[str, ...] = ()


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

METHODS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
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
            options=INTERVALS,
        ),
        "lstdq": Entry(lstdq, "Least-squares temporal differences for the action value."),
        "fqe": Entry(
            fitted_q,
            "Fitted Q evaluation with a linear model, until it stands still.",
            {"model": "linear"},
        ),
        "fqe_mlp": Entry(fitted_q, "Fitted Q evaluation with a network.", {"model": "mlp"}),
        "mwl": Entry(
            minimax_weight, "Minimax weight learning, linear critics.", {"critics": "linear"}
        ),
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
            lagrangian_dice,
            "GradientDICE: as gen_dice, of any sign.",
            {"preset": "gradient_dice"},
        ),
        "best_dice": Entry(
            lagrangian_dice,
            "What the authors of the regularized Lagrangian found best.",
            {"preset": "best_dice"},
        ),
        "lagrangian_dice": Entry(
            lagrangian_dice,
            "The regularized Lagrangian, all switches off.",
            options=("dual_dice", "minimax_weight"),
        ),
        "coin_dice": Entry(coin_dice, "CoinDICE: values over all reweightings the log bears out."),
        "dirichlet": Entry(
            dirichlet_model, "Posterior over tabular worlds, each drawn one solved exactly."
        ),
        "lstdq_bootstrap": Entry(lstdq_bootstrap, "LSTDQ under the Bayesian bootstrap."),
        "bdqn": Entry(bdqn, "A Q network with a Bayesian last layer."),
        "beta": Entry(beta_bandit, "Conjugate posterior of a bandit with two rewards."),
    }
)
"""The methods, in the order in which they are listed."""
