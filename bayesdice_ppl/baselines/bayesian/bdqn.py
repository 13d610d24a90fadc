"""BDQN: a Q network whose last layer is a Bayesian linear regression, for off-policy evaluation.

The network is trained by fitted Q evaluation and all but its last layer is frozen. The posterior of
that layer's weights gives the belief about the value.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import jax
import numpy as np
from jaxtyping import Float

from bayesdice_ppl.baselines.bayesian.last_layer import (
    LastLayer,
    draw_products,
    iterate_regression,
    start_features,
)
from bayesdice_ppl.baselines.interface import Estimate, Estimator, Needs, Query, central
from bayesdice_ppl.baselines.value.q_network import hidden_features
from bayesdice_ppl.baselines.value.q_training import (
    NetworkProblem,
    Trained,
    Training,
    prepare_network,
    train_network,
)
from bayesdice_ppl.checks import positive, whole
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.keys import seed_sequence


@final
@dataclass(frozen=True)
class Bdqn(Estimator):
    """Bayesian last layer of a Q network, the evaluation form of BDQN.

    Parameters
    ----------
    prior_sd
        Prior standard deviation of each weight of the last layer, in standard deviations of the
        reward over 1 - gamma.
    regressions
        Number of Bayesian regressions, each on the targets of the posterior mean of the one before;
        the first has those of the network.
    draws
        Number of posterior draws.
    refits, steps, batch, width, learning_rate, action_draws
        Of the network, as for `fitted_q`.

    Notes
    -----
    Its value is the posterior mean, its interval the draws' central quantiles. It needs a key and
    gamma below 1, and no propensities; it takes labels or vectors.

    *Idea.* `fitted_q` with a network learns Q of the candidate. Its last hidden layer and a
    constant are then the features phi of a linear regression of y = r + gamma V(s'), V being that
    of the posterior mean so far, which is BDQN's target network (Azizzadenesheli, Brunskill and
    Anandkumar, "Efficient exploration through Bayesian deep Q-networks", 2018, section 4)::

        y_i ~ Normal(phi_i'w_a, noise)
        w_a ~ Normal(w0, (prior_sd sd(r) / (1 - gamma))^2 I)
        value = (1 - gamma) mean_e sum_a pi(a|s0_e) phi(s0_e)'w_a

    Past a termination V is the mean initial V under restart and 0 under absorb. Where actions are
    labels each has weights w_a of its own, as in BDQN; where they are vectors there is one w, of
    phi(s, a). All of w0 is 0 but the constant, which is the log's mean reward over 1 - gamma: the
    average empirical reward prior with which Yang, Dai, Nachum, Tucker and Schuurmans, "Offline
    policy selection under uncertainty" (2022), compare. The noise is one number: of the last fit
    the mean squared temporal-difference error plus the mean posterior variance of its fitted
    values, a step of expectation maximization (Bishop, "Pattern recognition and machine learning",
    2006, section 9.3.4). Where there is none, 1e-4 of the prior's standard deviation stands for it.

    *When it fails.* The draws are those of one regression on targets that are held fixed. Left out
    are how the errors of V carry over to the targets from one Bellman backup to the next, other
    frozen layers, the dependence within an episode, and the choice of the initial states. The
    value's error adds up over the effective horizon, so the intervals are miscalibrated and mostly
    too narrow as soon as gamma is well above 0: over 40 logs of FrozenLake, 25 episodes of 100
    steps each, the estimates at gamma = 0.95 scattered eight times as widely as the draws. Nothing
    is done about it here, as this is the method that others compare with. At gamma = 0 nothing is
    carried over. Where a candidate takes actions that were never logged, the draws are the prior.

    Every candidate has a network of its own. With the same key the first weights, the batches and
    the standard normals of the draws are shared: draws of two candidates are joint only as far as
    their networks end alike. It is not a posterior over worlds.
    """

    prior_sd: float = 1.0
    _: KW_ONLY
    regressions: int = 5
    draws: int = 1000
    refits: int = 60
    steps: int = 100
    batch: int = 128
    width: int = 64
    learning_rate: float = 2e-3
    action_draws: int = 8
    name = "bdqn"
    needs = Needs(rng_key=True)
    gives = "draws"

    def __post_init__(self) -> None:
        positive("prior_sd", self.prior_sd)
        whole("regressions", self.regressions)
        whole("draws", self.draws, 2)
        Training.of(self)

    def answer(self, query: Query, level: float) -> Estimate:
        """Train the network, and draw from the posterior of its last layer.

        Raises
        ------
        SettingsError
            gamma = 1.
        LogsError
            The regressions diverge.
        """
        gamma, training = query.gamma, Training.of(self)
        if gamma == 1.0:
            raise SettingsError(
                "gamma: bdqn draws (1 - gamma) Q, expected a discount below 1, found 1. Lower it, "
                "or use a method for average rewards."
            )
        key_actions, key_train, key_draws = jax.random.split(query.key, 3)
        prepared = prepare_network(query, training, key_actions)
        trained = train_network(prepared, training, key_train)
        layer, weights = frozen_network(prepared, trained, gamma)
        posterior = iterate_regression(
            layer,
            weights,
            prepared.table,
            restart=query.restart,
            prior=(self.prior_sd / (1.0 - gamma)) ** 2,
            regressions=self.regressions,
        )
        # From standardized rewards and Q to reward per step.
        features = start_features(layer)
        drawn = (1.0 - gamma) * draw_products(
            posterior, features, self.draws, np.random.default_rng(seed_sequence(key_draws))
        )
        value = (1.0 - gamma) * float((posterior.mean * features).sum())
        return Estimate(value, *central(drawn, level), drawn).back(prepared.units)


def frozen_network(
    prepared: NetworkProblem, trained: Trained, gamma: float
) -> tuple[LastLayer, Float[np.ndarray, "K p"]]:
    """Read the trained network as features and its own last layer, in float64; gamma is below 1.

    Returns
    -------
    layer
        Features of the log, with a constant.
    weights
        Last layer, of Q itself in standardized rewards, shape (K, p).
    """
    table, network = prepared.table, trained.network
    n, vectors = int(table.n), table.vector_actions
    logged, at_state = (
        np.column_stack([part, np.ones(len(part))]).astype(np.float64)
        for part in map(np.asarray, hidden_features(network, prepared.single))
    )
    layer = LastLayer(
        logged=logged[:n] if vectors else logged,
        cell=np.arange(n) if vectors else table.state[:n],
        output=np.zeros(n, dtype=np.int64) if vectors else table.action[:n],
        at_state=at_state,
        policy=np.ones((len(at_state), 1)) if vectors else table.policy,
        start=table.start,
    )
    bias = np.asarray(network.biases[2], dtype=np.float64)
    if prepared.relative:
        # What was taken off in each regression has added up to the value of a start.
        bias = bias + float(trained.value) / (1.0 - gamma) - float(trained.level)
    output = np.asarray(network.output, dtype=np.float64)
    return layer, np.vstack([output, bias]).T


bdqn = Bdqn
