"""Conjugate posterior of a bandit whose rewards take two values.

Each arm pays the higher reward with an unknown probability, which has a Beta distribution before
and after the log is seen. A policy's value is a weighted sum of independent arms, so that its mean
and variance are exact.
"""

from __future__ import annotations

import hashlib
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.baselines.interface import Estimate, Estimator, Needs, Query, central
from bayesdice_ppl.checks import positive, whole
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy, align_policies


@final
class ValueMoments(NamedTuple):
    """Posterior mean and standard deviation of a policy's value, in reward per step."""

    mean: float
    sd: float


@final
class _Arms(NamedTuple):
    """Posterior of each arm in each context that the value asks for.

    Attributes
    ----------
    a, b
        Parameters of the Beta distribution of the probability of ``high``, shape (E, A).
    weight
        Weight of the context times the policy's probability of the arm, shape (E, A).
    actions
        Labels of the A arms.
    low, high
        The two rewards.
    """

    a: Float[np.ndarray, "E A"]
    b: Float[np.ndarray, "E A"]
    weight: Float[np.ndarray, "E A"]
    actions: list[Any]
    low: float
    high: float


@final
@dataclass(frozen=True)
class BetaBandit(Estimator):
    """Conjugate Beta posterior of a bandit whose rewards take two values.

    Parameters
    ----------
    prior
        Parameters (a, b), above 0, of every arm's Beta distribution before the log is seen: a
        counts the higher reward, b the lower; (1, 1) is uniform.
    draws
        Number of posterior draws.
    reward_values
        The two rewards there can be, in any order. None: those in the log, which must then hold
        both.

    Notes
    -----
    The probability that arm a pays the higher reward in context s is Beta(a + wins, b + pulls -
    wins), independently of all others (Gelman et al., "Bayesian Data Analysis", 3rd edition,
    section 2.4); an arm that was never pulled keeps the prior. The value is::

        low + (high - low) sum_s w_s sum_a pi(a|s) p_sa

    with w_s the share of the episodes that begin in context s, which is taken as known: with many
    contexts and few rows the posterior is too narrow by what that leaves out. Of episodes with
    several steps, all rows count for the arms and first states for the contexts. `value` is the
    exact posterior mean, `BetaBandit.moments` adds the exact standard deviation, and the interval
    is that of the draws. Draws of policies with the same key use the same arms, draw by draw.

    It needs labels, gamma = 0 and a key, and no propensities.
    """

    prior: tuple[float, float] = (1.0, 1.0)
    draws: int = 4000
    _: KW_ONLY
    reward_values: tuple[float, float] | None = None
    name = "beta"
    needs = Needs(labels=True, bandit=True, rng_key=True)
    gives = "draws"

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", beta_prior("prior", self.prior))
        whole("draws", self.draws)
        object.__setattr__(self, "reward_values", two_rewards(self.reward_values))

    def answer(self, query: Query, level: float) -> Estimate:
        """Give the exact posterior mean, and draws."""
        arms = self._arms(query.logs, query.policy)
        probability = np.zeros(self.draws)
        for j, action in enumerate(arms.actions):
            # Arms that the policy never pulls have streams of their own, which nothing else reads.
            if arms.weight[:, j].any():
                rng = label_stream(query.key, action)
                drawn = rng.beta(arms.a[:, j], arms.b[:, j], size=(self.draws, len(arms.a)))
                probability += drawn @ arms.weight[:, j]
        draws = arms.low + (arms.high - arms.low) * probability
        return Estimate(_moments(arms).mean, *central(draws, level), draws)

    def moments(self, logs: Logs, policy: Policy | ContinuousPolicy) -> ValueMoments:
        """Exact posterior mean and standard deviation of a policy's value, from a bandit's log.

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            As for `estimate`.
        """
        if logs.vector_states or logs.vector_actions:
            raise LogsError("beta needs labels, and the log has vectors.")
        return _moments(self._arms(logs, policy))

    def _arms(self, logs: Logs, policy: Policy | ContinuousPolicy) -> _Arms:
        aligned = align_policies(logs, {"policy": policy}, needs_successors=False)
        low, high = two_values(self.name, logs.reward, self.reward_values)
        shape = aligned.probabilities.shape[1:]
        at = logs.state * shape[1] + aligned.codes(logs)[logs.action]
        size = shape[0] * shape[1]
        pulls = np.bincount(at, minlength=size).reshape(shape)
        wins = np.bincount(at, logs.reward == high, minlength=size).reshape(shape)
        start, times = np.unique(logs.initial_state, return_counts=True)
        share = times / times.sum()
        return _Arms(
            a=self.prior[0] + wins[start],
            b=self.prior[1] + (pulls - wins)[start],
            weight=share[:, None] * aligned.probabilities[0][start],
            actions=aligned.actions.tolist(),
            low=low,
            high=high,
        )


def label_stream(rng_key: PRNGKeyArray, label: Any) -> np.random.Generator:
    """Random numbers that belong to one label, whatever other labels there are.

    Two policies may know different actions; what is drawn for one action must not depend on that.
    """
    digest = hashlib.sha256(repr(label).encode()).digest()
    # Four words of 32 bits: chance alone would have to make two labels the same.
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    entropy = seed_sequence(rng_key).entropy
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=words))


def beta_prior(setting: str, prior: Any) -> tuple[float, float]:
    """Refuse what is not a pair of parameters of a Beta distribution.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise SettingsError(f"{setting}: expected two numbers above 0, found {prior!r}.")
    return positive(setting, prior[0]), positive(setting, prior[1])


def two_rewards(values: Any) -> tuple[float, float] | None:
    """Sort two different rewards, or keep None.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if values is None:
        return None
    try:
        low, high = sorted(float(value) for value in values)
    except (TypeError, ValueError) as cause:
        raise SettingsError(f"reward_values: expected two numbers, found {values!r}.") from cause
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise SettingsError(
            f"reward_values: expected two different finite numbers, found {values!r}."
        )
    return low, high


def two_values(
    name: str, reward: Float[np.ndarray, " n"], stated: tuple[float, float] | None
) -> tuple[float, float]:
    """Lower and higher of the two values that rewards take.

    Raises
    ------
    LogsError
        The log has other rewards, or only one and nothing is stated.
    """
    found = np.unique(reward)
    if stated is None:
        if len(found) == 2:
            return float(found[0]), float(found[1])
        held = f"only {found[0]:g}" if len(found) == 1 else f"{len(found)} values"
        stating = " State both: reward_values=(low, high), or --set reward_values=low,high."
        hint = stating if len(found) == 1 else ""
        raise LogsError(f"{name} needs rewards of two values, and the log's are {held}.{hint}")
    outside = ~np.isin(reward, stated)
    if outside.any():
        raise LogsError(
            f"reward_values: expected the log's rewards to be {stated[0]:g} or {stated[1]:g}, "
            f"found {reward[outside][0]:g}."
        )
    return stated


def _moments(arms: _Arms) -> ValueMoments:
    total = arms.a + arms.b
    mean = arms.a / total
    variance = mean * (1.0 - mean) / (total + 1.0)
    span = arms.high - arms.low
    return ValueMoments(
        float(arms.low + span * np.sum(arms.weight * mean)),
        float(span * np.sqrt(np.sum(arms.weight**2 * variance))),
    )


beta_bandit = BetaBandit
