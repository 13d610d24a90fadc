"""Conjugate posterior of a bandit whose rewards take two values.

Each arm pays the higher reward with an unknown probability, which has a Beta distribution before
and after the log is seen. A policy's value is a weighted sum of independent arms, so that its mean
and variance are exact.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.baselines.checks import positive, whole
from bayesdice_ppl.baselines.interface import Asked, Drawing, Estimate, Needs
from bayesdice_ppl.baselines.intervals import central
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy, align_policies

METHOD = "beta"


@final
class Moments(NamedTuple):
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
class BetaBandit(Drawing):
    """The conjugate Beta posterior of a bandit; make one with `beta_bandit`."""

    prior: tuple[float, float] = (1.0, 1.0)
    draws: int = 4000
    reward_values: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """Name in tables."""
        return METHOD

    @property
    def needs(self) -> Needs:
        """Labels, a bandit and a key."""
        return Needs(labels=True, bandit=True, rng_key=True)

    def answer(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Estimate:
        """Give the exact posterior mean, and draws."""
        assert rng_key is not None  # it was asked for among the needs
        arms = self._arms(logs, policy)
        probability = np.zeros(self.draws)
        for j, action in enumerate(arms.actions):
            # Arms that the policy never pulls have streams of their own, which nothing else reads.
            if arms.weight[:, j].any():
                rng = label_stream(rng_key, action)
                drawn = rng.beta(arms.a[:, j], arms.b[:, j], size=(self.draws, len(arms.a)))
                probability += drawn @ arms.weight[:, j]
        draws = arms.low + (arms.high - arms.low) * probability
        lower, upper = central(draws, asked.level)
        return Estimate(_moments(arms).mean, lower, upper, draws)

    def moments(self, logs: Logs, policy: Policy | ContinuousPolicy) -> Moments:
        """Exact posterior mean and standard deviation of a policy's value.

        Parameters
        ----------
        logs
            A bandit's log; states and actions labels, rewards of two values.
        policy
            The candidate.

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            As for `estimate`.
        """
        if logs.vector_states or logs.vector_actions:
            raise LogsError(f"{METHOD} needs labels, and the log has vectors.")
        return _moments(self._arms(logs, policy))

    def _arms(self, logs: Logs, policy: Policy | ContinuousPolicy) -> _Arms:
        aligned = align_policies(logs, {"policy": policy}, needs_successors=False)
        low, high = two_values(METHOD, logs.reward, self.reward_values)
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


def beta_bandit(
    prior: tuple[float, float] = (1.0, 1.0),
    draws: int = 4000,
    *,
    reward_values: tuple[float, float] | None = None,
) -> BetaBandit:
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

    Raises
    ------
    SettingsError
        The prior or the number of draws is out of its range, or there are not two rewards.
    """
    return BetaBandit(
        beta_prior(METHOD, prior), whole(METHOD, "draws", draws), two_rewards(METHOD, reward_values)
    )


def label_stream(rng_key: PRNGKeyArray, label: Any) -> np.random.Generator:
    """Random numbers that belong to one label, whatever other labels there are.

    Two policies may know different actions; what is drawn for one action must not depend on that.

    Parameters
    ----------
    rng_key
        The key.
    label
        An integer or a string.
    """
    digest = hashlib.sha256(repr(label).encode()).digest()
    # Four words of 32 bits: chance alone would have to make two labels the same.
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    entropy = seed_sequence(rng_key).entropy
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=words))


def beta_prior(name: str, prior: Any, what: str = "prior") -> tuple[float, float]:
    """Refuse what is no pair of parameters of a Beta distribution.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        raise SettingsError(f"{name}: {what}: expected two numbers above 0, found {prior!r}.")
    return positive(name, what, prior[0]), positive(name, what, prior[1])


def two_rewards(name: str, values: Any) -> tuple[float, float] | None:
    """Refuse what is neither None nor two different rewards; sort them.

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
        raise SettingsError(
            f"{name}: reward_values: expected two numbers, found {values!r}."
        ) from cause
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise SettingsError(
            f"{name}: reward_values: expected two different finite numbers, found {values!r}."
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
        stating = "; state both with reward_values=(low, high), --set reward_values=low,high"
        hint = stating if len(found) == 1 else ""
        raise LogsError(f"{name} needs rewards of two values, and the log's are {held}{hint}.")
    outside = ~np.isin(reward, stated)
    if outside.any():
        raise LogsError(
            f"{name}: the log holds the reward {reward[outside][0]:g}, which is none of the stated "
            f"reward_values {stated[0]:g} and {stated[1]:g}."
        )
    return stated


def _moments(arms: _Arms) -> Moments:
    total = arms.a + arms.b
    mean = arms.a / total
    variance = mean * (1.0 - mean) / (total + 1.0)
    span = arms.high - arms.low
    return Moments(
        float(arms.low + span * np.sum(arms.weight * mean)),
        float(span * np.sqrt(np.sum(arms.weight**2 * variance))),
    )


__all__ = ["BetaBandit", "Moments", "beta_bandit"]
