"""BDQN: a Q network whose last layer is a Bayesian linear regression, for off-policy evaluation.

The network is trained by fitted Q evaluation and all but its last layer is frozen; what the
posterior of that layer's weights says of the initial states is the belief about the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.baselines.bayesian_last_layer import (
    LastLayer,
    draw_products,
    iterate_regression,
    start_features,
)
from bayesdice_ppl.baselines.checks import even, positive, whole
from bayesdice_ppl.baselines.fitted_q import NetworkSettings
from bayesdice_ppl.baselines.interface import Asked, Drawing, Estimate, Needs
from bayesdice_ppl.baselines.intervals import central
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy

if TYPE_CHECKING:
    from bayesdice_ppl.baselines.fitted_q_network import Prepared, Trained


@final
@dataclass(frozen=True)
class Bdqn(Drawing):
    """A choice of BDQN; make one with `bdqn`."""

    prior_sd: float
    regressions: int
    draws: int
    network: NetworkSettings

    @property
    def name(self) -> str:
        """Name in tables."""
        return "bdqn"

    @property
    def needs(self) -> Needs:
        """A key."""
        return Needs(rng_key=True)

    def answer(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Estimate:
        """Train the network, and draw from the posterior of its last layer.

        Raises
        ------
        SettingsError
            gamma = 1.
        LogsError
            The regressions diverge.
        """
        if asked.gamma == 1.0:
            raise SettingsError(
                "bdqn draws (1 - gamma) Q, which says nothing at gamma = 1; use a discount below "
                "1, or a method for average rewards."
            )
        import jax

        from bayesdice_ppl.baselines.fitted_q_network import prepare_network, train_network

        assert rng_key is not None, "a question without a key was refused"
        key_actions, key_train, key_draws = jax.random.split(rng_key, 3)
        prepared = prepare_network(logs, policy, asked, self.network, key_actions)
        trained = train_network(prepared, self.network, key_train)
        layer, weights = frozen_network(prepared, trained, asked.gamma)
        posterior = iterate_regression(
            layer,
            weights,
            prepared.training,
            restart=asked.restart,
            prior=(self.prior_sd / (1.0 - asked.gamma)) ** 2,
            regressions=self.regressions,
        )
        # From standardized rewards and Q to reward per step.
        scale, features = (1.0 - asked.gamma) * prepared.scale, start_features(layer)
        drawn = prepared.center + scale * draw_products(
            posterior, features, self.draws, np.random.default_rng(seed_sequence(key_draws))
        )
        value = prepared.center + scale * float((posterior.mean * features).sum())
        return Estimate(value, *central(drawn, asked.level), drawn)


def frozen_network(
    prepared: Prepared, trained: Trained, gamma: float
) -> tuple[LastLayer, Float[np.ndarray, "K p"]]:
    """Read the trained network as features and its own last layer, in float64.

    Parameters
    ----------
    prepared, trained
        The question, and the network that was trained on it.
    gamma
        Discount, below 1.

    Returns
    -------
    layer
        Features of the log, with a constant.
    weights
        Last layer, of Q itself in standardized rewards, shape (K, p).
    """
    from bayesdice_ppl.baselines.q_network import hidden_features

    training, parameters = prepared.training, trained.parameters
    n = int(training.n)
    logged, at_state = (
        np.column_stack([part, np.ones(len(part))]).astype(np.float64)
        for part in map(np.asarray, hidden_features(parameters, prepared.single))
    )
    vectors = training.action.ndim == 2
    layer = LastLayer(
        logged=logged[:n] if vectors else logged,
        cell=np.arange(n) if vectors else training.state[:n],
        output=np.zeros(n, dtype=np.int64) if vectors else training.action[:n],
        at_state=at_state,
        policy=np.ones((len(at_state), 1)) if vectors else training.policy,
        start=training.start,
    )
    bias = np.asarray(parameters["biases"][2], dtype=np.float64)
    if prepared.relative:
        # What was taken off in each regression has added up to the value of a start.
        bias = bias + float(trained.value) / (1.0 - gamma) - float(trained.level)
    output = np.asarray(parameters["output"], dtype=np.float64)
    return layer, np.vstack([output, bias]).T


def bdqn(
    prior_sd: float = 1.0,
    *,
    regressions: int = 5,
    draws: int = 1000,
    refits: int = 60,
    steps: int = 100,
    batch: int = 128,
    width: int = 64,
    learning_rate: float = 2e-3,
    action_draws: int = 8,
) -> Bdqn:
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

    Returns
    -------
    Bdqn
        A baseline; its value is the posterior mean, its interval the draws' central quantiles. It
        needs a key, no propensities, labels or vectors, and gamma below 1.

    Notes
    -----
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

    *When it fails.* The draws are those of one regression on targets that are held fixed. How the
    errors of V carry over to the targets, from one Bellman backup to the next, is left out, and so
    are what the frozen layers might have been, the dependence within an episode and the choice of
    the initial states. Beside one backup's error the value's error adds up over the effective
    horizon, so the intervals are known to be miscalibrated and are mostly too narrow as soon as
    gamma is well above 0: over 40 logs of FrozenLake, 25 episodes of 100 steps each, the estimates
    at gamma = 0.95 scattered eight times as widely as the draws. Nothing is done about it here, as
    this is the method that others compare with. At gamma = 0 nothing is carried over and, but for
    the network, the regression is the whole truth. Where a candidate takes actions that were never
    logged, the prior answers.

    Every candidate has a network of its own. With the same key the first weights, the batches and
    the standard normals of the draws are shared, which makes draws of two candidates joint only as
    far as their networks end alike; it is not a posterior over worlds.

    Raises
    ------
    SettingsError
        A number is out of range.
    """
    network = NetworkSettings(
        refits=whole("bdqn", "refits", refits, 4),
        steps=whole("bdqn", "steps", steps),
        batch=whole("bdqn", "batch", batch),
        width=whole("bdqn", "width", width),
        learning_rate=positive("bdqn", "learning_rate", learning_rate),
        action_draws=even("bdqn", "action_draws", action_draws),
    )
    return Bdqn(
        positive("bdqn", "prior_sd", prior_sd),
        whole("bdqn", "regressions", regressions),
        whole("bdqn", "draws", draws, 2),
        network,
    )


__all__ = ["Bdqn", "bdqn"]
