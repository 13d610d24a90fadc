"""The regularized Lagrangian of a policy's value: GenDICE and its family, by their switches.

A ratio maximizes and a Q minimizes one bilinear form. Regularizers make its saddle point easier to
find; they bias some of the three estimates that can be read off it, and not others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, final

from bayesdice_ppl.baselines.dice.saddle import (
    Blocks,
    Saddle,
    Switches,
    make_blocks,
    solve_saddle,
)
from bayesdice_ppl.baselines.interface import Estimate, Estimator, Query
from bayesdice_ppl.baselines.settings import only_with, optional_ridge
from bayesdice_ppl.checks import nonnegative, one_of
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import FeatureChoice

ESTIMATORS = ("primal", "dual", "lagrangian")
PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "dual_dice": {"dual_regularizer": 1.0, "zero_reward": True},
    "gen_dice": {
        "primal_regularizer": 1.0,
        "zeta_positive": True,
        "normalization": True,
        "normalization_slack": 1.0,
        "zero_reward": True,
    },
    "gradient_dice": {
        "primal_regularizer": 1.0,
        "normalization": True,
        "normalization_slack": 1.0,
        "zero_reward": True,
    },
    "minimax_weight": {"zero_reward": True},
    "minimax_q": {"estimator": "primal"},
    "best_dice": {"dual_regularizer": 1.0, "zeta_positive": True, "normalization": True},
}
"""The methods that the family contains, by what differs from all switches off."""
SHORT = {
    "gen_dice": "gen_dice",
    "gradient_dice": "gradient_dice",
    "best_dice": "best_dice",
    "minimax_q": "mql",
    "dual_dice": "lagrangian_dice:dual_dice",
    "minimax_weight": "lagrangian_dice:minimax_weight",
}
"""Names of the presets for `make`. Two of them are also methods of their own, with these names."""


_OFF: Final[Mapping[str, Any]] = {
    "estimator": "dual",
    "primal_regularizer": 0.0,
    "dual_regularizer": 0.0,
    "zeta_positive": False,
    "normalization": False,
    "normalization_slack": 0.0,
    "zero_reward": False,
}


@final
@dataclass(frozen=True)
class LagrangianDice(Estimator):
    """The regularized Lagrangian family.

    Parameters
    ----------
    preset
        A method of the family, from which the switches that are not given are taken:
        ``"dual_dice"``; ``"gen_dice"`` (Zhang, Dai, Li and Schuurmans, 2020); ``"gradient_dice"``
        (Zhang, Liu and Whiteson, 2020), GenDICE with ratios of any sign; ``"minimax_weight"``;
        ``"minimax_q"`` (Uehara, Huang and Jiang, 2020), which with the same linear functions on
        both sides is LSTDQ; or ``"best_dice"``, which the authors of the regularized Lagrangian
        found to work best. None: all off.
    estimator
        ``"primal"``, (1 - gamma) E Q(s0, pi) + lambda; ``"dual"``, E[zeta r], the default; or
        ``"lagrangian"``, the sum of both corrections.
    primal_regularizer, dual_regularizer
        alpha_Q of E[Q^2] / 2, and alpha_zeta of E[zeta^2] / 2. Q is in standard deviations of the
        reward, from its mean: with another unit the same strength would be another one.
    zeta_positive
        Hold the ratio at or above 0 on every logged pair.
    normalization
        Hold E[zeta] at 1, by a multiplier lambda.
    normalization_slack
        Let E[zeta] differ from 1 for a price: lambda has the term slack lambda^2 / 2, the ratio the
        penalty (E[zeta] - 1)^2 / (2 slack). 0: hold it exactly.
    zero_reward
        Leave the reward out of the Lagrangian, alpha_R = 0; the estimator is then the dual one.
    ridge, features, renormalize
        As for `lstdq`; the ridge is on the weights of ratio and Q alike.

    Notes
    -----
    ::

        max_zeta min_{Q, lambda} (1 - gamma) E[Q(s0, pi)] + lambda
            + E[zeta (alpha_R r + gamma Q(s', pi) - Q(s, a) - lambda)]
            + alpha_Q E[f(Q)] - alpha_zeta E[f(zeta)]              f(x) = x^2 / 2

    (Yang, Nachum, Dai, Li and Schuurmans, "Off-policy evaluation via the regularized Lagrangian",
    2020, section 3). Ratio and Q are linear on the same features, one-hot for labels; the saddle
    point is one linear system, or with ``zeta_positive`` the end of an interior-point method.
    GenDICE's own f(Q) is weighted by the ratio, and not by the log as here and in that paper;
    without reward both have their saddle point at the same ratio on labels.

    On labels, where all pairs that the policy visits are logged, a ratio regularizer leaves the
    ratio exact and biases Q, a Q regularizer without reward leaves the ratio exact too (Q = 0), and
    a Q regularizer with reward biases the ratio and leaves Q exact; so without regularizers the
    three estimators agree with LSTDQ, and so do all presets that estimate by the ratio. On features
    they still agree while the constraints can be met exactly, which takes as many features of the
    ratio as of Q. It needs no propensities. Rewards are standardized first, as for `lstdq`. Pairs
    that were never logged have Q = 0: they are worth the log's mean reward.

    A switch that is None is as the preset says. In what is made every switch has its value.
    """

    preset: str | None = None
    _: KW_ONLY
    estimator: str | None = None
    primal_regularizer: float | None = None
    dual_regularizer: float | None = None
    zeta_positive: bool | None = None
    normalization: bool | None = None
    normalization_slack: float | None = only_with(None, normalization=(True,))
    zero_reward: bool | None = None
    ridge: float | None = None
    features: FeatureChoice | None = None
    renormalize: bool = only_with(False, features=(None,))
    standardized = True

    def __post_init__(self) -> None:
        if self.preset is not None:
            one_of("preset", self.preset, PRESETS)
        for switch, value in {**_OFF, **PRESETS.get(self.preset or "", {})}.items():
            if getattr(self, switch) is None:
                object.__setattr__(self, switch, value)
        for switch in ("primal_regularizer", "dual_regularizer", "normalization_slack"):
            nonnegative(switch, getattr(self, switch))
        one_of("estimator", self.estimator, ESTIMATORS)
        if self.zero_reward and self.estimator != "dual":
            raise SettingsError(
                "estimator: with zero_reward=True Q holds no value, expected 'dual', found "
                f"{self.estimator!r}."
            )
        optional_ridge(self.ridge)

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"lagrangian_{self.preset or 'dice'}"

    @property
    def short(self) -> str:
        """Name for `make`, such as "gen_dice"."""
        return "lagrangian_dice" if self.preset is None else SHORT[self.preset]

    @property
    def switches(self) -> Switches:
        """Which Lagrangian it is."""
        return Switches(*(getattr(self, switch) for switch in Switches._fields))

    def answer(self, query: Query, level: float) -> Estimate:
        """Find the saddle point and read the estimate off it."""
        if query.gamma == 1.0 and not self.normalization:
            raise SettingsError(
                f"gamma: a ratio of 0 satisfies every constraint of {self.name} at gamma = 1. Use "
                "normalization=True, or lower gamma."
            )
        rows = query.rows(self.features, renormalize=self.renormalize)
        blocks = make_blocks(rows, self.ridge)
        saddle = solve_saddle(blocks, self.switches)
        return Estimate(read_value(blocks, saddle, str(self.estimator)))


def read_value(blocks: Blocks, saddle: Saddle, estimator: str) -> float:
    """Read an estimate off a saddle point; see `LagrangianDice`."""
    primal = (1.0 - blocks.gamma) * saddle.start_value + saddle.multiplier
    if estimator == "primal":
        return float(primal)
    if estimator == "dual":
        return float(saddle.zeta @ blocks.reward)
    error = blocks.reward + blocks.move @ saddle.q + blocks.ended * saddle.start_value
    return float(primal + saddle.zeta @ (error - saddle.multiplier * blocks.mass))


lagrangian_dice = LagrangianDice
