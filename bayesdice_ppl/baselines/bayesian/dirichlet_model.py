"""The value of a policy in each of many worlds that the log leaves possible.

The model-based posterior: what every state-action pair leads to has a Dirichlet distribution,
worlds are drawn from it, and in each the policy's value is solved for exactly. Where states and
actions are labels it is the standard for other posteriors.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.baselines.bayesian.beta_bandit import beta_prior, two_rewards
from bayesdice_ppl.baselines.bayesian.dirichlet_rewards import (
    Logged,
    Rewards,
    beta_rewards,
    normal_rewards,
)
from bayesdice_ppl.baselines.bayesian.dirichlet_worlds import (
    Model,
    Worlds,
    count_outcomes,
    draw_worlds,
)
from bayesdice_ppl.baselines.interface import Estimate, Estimator, Needs, Query, central
from bayesdice_ppl.baselines.settings import only_with
from bayesdice_ppl.checks import one_of, positive, whole
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.logs import RewardUnits

REWARDS = ("outcome", "beta", "normal")
MOST_PRIOR = 1000.0
"""Largest prior: each pair of each world needs about 3.5 times as many sticks."""


@final
@dataclass(frozen=True)
class DirichletModel(Estimator):
    """Model-based posterior of a policy's value, where states and actions are labels.

    Parameters
    ----------
    prior
        Number of transitions that the prior of each state-action pair is worth, above 0 and at
        most `MOST_PRIOR`, as each pair takes the more room the larger it is.
    reward
        ``"outcome"``: the reward is part of what a pair leads to, with the successor, so that their
        dependence counts. ``"beta"``: rewards of two values, with a Beta distribution of the
        probability of the higher. ``"normal"``: any rewards, with a normal distribution of unknown
        mean and variance. The last two take the reward as independent of the successor.
    draws
        Number of worlds.
    reward_prior
        Parameters (a, b) of the Beta prior of each pair, for ``"beta"``.
    reward_values
        The two rewards there can be, for ``"beta"``; None: those in the log, which must then hold
        both.

    Notes
    -----
    *Outcomes.* What follows on a pair has a Dirichlet process prior (Ferguson, "A Bayesian analysis
    of some nonparametric problems", 1973) of strength ``prior`` around the outcomes of all the
    log's transitions together. After n_c logged outcomes of kind c its distribution is::

        sum_c w_c delta_c + w_0 T',      (w_0, w_1, ...) ~ Dirichlet(prior, n_1, n_2, ...)

    with T' a draw from the prior, by sticks of lengths Beta(1, prior) that lie at transitions of
    the log picked at random (Sethuraman, "A constructive definition of Dirichlet priors", 1994,
    equation 1.5); what is left after as many sticks as hold all but 1/1000 of the variance is
    spread over all transitions of the log, which keeps the mean exact. A **pair that was never
    logged** is T' alone: it leads to where the log's transitions lead, and earns what they earn.
    A termination is an outcome like any other, as likely a priori as in the log; a log without one
    knows of none.

    *Rewards.* For ``"outcome"`` the reward is part of c. For ``"normal"`` the variance of a
    pair's rewards is inverse gamma (3/2, half of the log's variance of rewards) and the mean, given
    the variance, is normal around the log's mean reward, worth ``prior`` rewards (Gelman et al.,
    "Bayesian Data Analysis", 3rd edition, section 3.3).

    *Start.* The initial distribution is Dirichlet with one count for each episode (Rubin, "The
    Bayesian bootstrap", 1981): an unseen start has no chance.

    In each world the value is exact, under restarts, absorption or as an average reward. The same
    key draws the same worlds for every policy, so that draws are joint. `value` is the mean of the
    draws, and the interval is central.

    It needs labels and a key, and no propensities. It fails where the prior matters: pairs that a
    policy often takes and the log seldom has. ``"beta"`` gives each pair its own prior mean
    a / (a + b): in a world whose rewards are nearly always 0 that is far from neutral. At gamma = 1
    only the prior joins parts of a log that do not reach each other. The time grows as draws times
    the cube of the number of states.
    """

    prior: float = 1.0
    reward: str = "outcome"
    draws: int = 1000
    _: KW_ONLY
    reward_prior: tuple[float, float] = only_with((1.0, 1.0), reward=("beta",))
    reward_values: tuple[float, float] | None = only_with(None, reward=("beta",))
    name = "dirichlet"
    needs = Needs(labels=True, rng_key=True)
    gives = "draws"

    def __post_init__(self) -> None:
        if positive("prior", self.prior) > MOST_PRIOR:
            raise SettingsError(
                f"prior: expected at most {MOST_PRIOR:g} transitions, found {self.prior!r}."
            )
        one_of("reward", self.reward, REWARDS)
        whole("draws", self.draws)
        object.__setattr__(self, "reward_prior", beta_prior("reward_prior", self.reward_prior))
        object.__setattr__(self, "reward_values", two_rewards(self.reward_values))

    def answer(self, query: Query, level: float) -> Estimate:
        """Draw the posterior of a policy's value."""
        outcomes, gamma = self.reward == "outcome", query.gamma
        model = count_outcomes(query.logs, query.policy, gamma, rewards=outcomes)
        # Every world's rows sum to one, so a constant need not pass through its equation.
        units = RewardUnits(query.units.origin)
        rewards = None if outcomes else self._rewards(model, units)
        model = model._replace(reward=units.into(model.reward), levels=units.into(model.levels))
        batches = draw_worlds(model, rewards, self.prior, gamma, self.draws, query.key)
        draws = np.concatenate(
            [solve_worlds(worlds, gamma, restart=query.restart) for worlds in batches]
        )
        return Estimate(float(draws.mean()), *central(draws, level), draws).back(units)

    def _rewards(self, model: Model, units: RewardUnits) -> Rewards:
        pair = model.action * model.n_states + model.state
        logged = Logged(pair, model.reward, (len(model.actions), model.n_states))
        if self.reward == "beta":
            found = beta_rewards(logged, self.reward_prior, self.reward_values)
            low, high = (float(units.into(end)) for end in (found.low, found.high))
            return found._replace(low=low, high=high)
        return normal_rewards(logged._replace(reward=units.into(logged.reward)), self.prior)


def solve_worlds(worlds: Worlds, gamma: float, *, restart: bool) -> Float[np.ndarray, " B"]:
    """Normalized value of the policy in each world.

    Notes
    -----
    With P the moves, e the probability of a termination, r the rewards and mu the start, (I - gamma
    (P + e mu')) V = r and the value is (1 - gamma) mu'V, without e mu' where terminations are
    absorbed. At gamma = 1, (I - P - e mu') V + rho = r and mu'V = 0.

    Raises
    ------
    LogsError
        At gamma = 1 some world falls into parts that do not reach each other.
    """
    start = worlds.start
    if gamma == 0.0:
        return np.sum(start * worlds.reward, axis=1)
    k = start.shape[1]
    average = gamma == 1.0
    size = k + 1 if average else k
    system = np.zeros((len(start), size, size))
    system[:, :k, :k] = -gamma * worlds.moves[:, :, :k]
    if restart:
        system[:, :k, :k] -= gamma * worlds.moves[:, :, k:] * start[:, None, :]
    system[:, np.arange(k), np.arange(k)] += 1.0
    right = np.zeros((len(start), size, 1))
    right[:, :k, 0] = worlds.reward
    if not average:
        value = np.linalg.solve(system, right)[:, :, 0]
        return (1.0 - gamma) * np.sum(start * value, axis=1)
    system[:, :k, k], system[:, k, :k] = 1.0, start
    try:
        return np.linalg.solve(system, right)[:, k, 0]
    except np.linalg.LinAlgError as cause:
        raise LogsError(
            "gamma: at gamma = 1 dirichlet drew a world whose parts do not reach each other, so it "
            "has no single average reward. Use gamma < 1, or a larger prior."
        ) from cause


dirichlet_model = DirichletModel
