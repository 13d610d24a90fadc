"""What a method is: a question about a log and one policy in, an estimate of its value out.

A method says what it needs before it is asked. A log without propensities, or with vectors where
labels are needed, is refused with a reason; no numbers are made up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.baselines.rows import FeatureRows, Rows, feature_rows, label_rows
from bayesdice_ppl.checks import between, discount, one_of
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.features.maps import FeatureChoice
from bayesdice_ppl.keys import check_key
from bayesdice_ppl.logs import Logs, RewardUnits, check_held, check_one_reward, reward_units
from bayesdice_ppl.policies import ContinuousPolicy, Policy


@final
class Estimate(NamedTuple):
    """What a method says of one policy's value, in reward per step.

    Attributes
    ----------
    value
        Point estimate of (1 - gamma) E[sum gamma^t r_t]; at gamma = 1 of the average reward.
    lower, upper
        Ends of a central interval of the level that was asked for, or None where the method has
        none.
    draws
        Posterior draws, shape (S,), or None. With the same key, draw s of two policies belongs to
        the same draw of the world, so that they are joint.
    effective_episodes
        How many episodes the estimate rests on, or None: of a method that weights whole episodes or
        their steps by importance weights. At gamma = 0, where each row is an episode of its own,
        how many rows. See `bayesdice_ppl.baselines.weighting.weights.effective_episodes`.
    """

    value: float
    lower: float | None = None
    upper: float | None = None
    draws: Float[np.ndarray, " S"] | None = None
    effective_episodes: float | None = None

    def back(self, units: RewardUnits) -> Estimate:
        """The same in the units of the rewards, from an estimate in ``units``."""
        return self._replace(
            value=float(units.back(self.value)),
            lower=None if self.lower is None else float(units.back(self.lower)),
            upper=None if self.upper is None else float(units.back(self.upper)),
            draws=None if self.draws is None else units.back(self.draws),
        )


def central(draws: Float[np.ndarray, " S"], level: float) -> tuple[float, float]:
    """Ends of the central interval of draws, which leaves out as much on either side."""
    tail = 0.5 * (1.0 - level)
    lower, upper = np.quantile(draws, [tail, 1.0 - tail])
    return float(lower), float(upper)


@final
class Needs(NamedTuple):
    """What a method needs beside transitions.

    Attributes
    ----------
    propensities
        The logged probabilities of the actions taken.
    labels
        States and actions that are labels, not vectors.
    bandit
        gamma = 0: every step stands alone.
    rng_key
        A key of `jax.random`, as the method draws.
    """

    propensities: bool = False
    labels: bool = False
    bandit: bool = False
    rng_key: bool = False

    def __str__(self) -> str:
        words = ("propensities", "labels", "gamma = 0", "rng_key")
        return ", ".join(word for word, needed in zip(words, self, strict=True) if needed)


@runtime_checkable
class Baseline(Protocol):
    """An estimator of one policy's value from logs of another."""

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def short(self) -> str:
        """Name for `make` and `--method`, such as ``"wpdis:bca"``: `make` gives the method back."""

    @property
    def needs(self) -> Needs:
        """What it needs beside transitions."""

    @property
    def gives(self) -> str:
        """``"estimate"``, ``"interval"`` or ``"draws"``: the most that its `Estimate` holds."""

    def estimate(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        *,
        gamma: float,
        level: float = 0.9,
        rng_key: PRNGKeyArray | None = None,
        on_termination: str = "restart",
    ) -> Estimate:
        """Estimate the normalized value of a policy.

        Parameters
        ----------
        logs
            Logged transitions.
        policy
            The candidate.
        gamma
            Discount in [0, 1].
        level
            Nominal coverage of the interval, in (0, 1).
        rng_key
            For methods that draw.
        on_termination
            ``"restart"`` or ``"absorb"``, as for `bayesdice_ppl.fit`.

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            The log, the candidate or a setting does not suit the method; the message says why.
        """


@final
@dataclass(frozen=True, eq=False)
class Query:
    """What one policy is worth, by one log; methods that are asked the same query share its rows.

    Bringing vectors onto features takes far longer than what a method then does with them. The
    query makes these rows once, when the first method asks for them.

    Attributes
    ----------
    logs, policy, gamma, rng_key, on_termination
        As for `Baseline.estimate`.
    """

    logs: Logs
    policy: Policy | ContinuousPolicy
    gamma: float
    rng_key: PRNGKeyArray | None = None
    on_termination: str = "restart"
    _logged: Query | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_held(self.logs, "this method")
        if not isinstance(self.logs, Logs):
            raise LogsError(
                "logs: expected Logs (read_logs or Logs.from_dataframe), found "
                f"{type(self.logs).__name__}."
            )
        object.__setattr__(self, "gamma", discount(self.gamma))
        one_of("on_termination", self.on_termination, ("restart", "absorb"))
        check_one_reward(self.logs.rewards, "this method")
        if not self.restart and self.gamma == 1.0 and self.logs.terminated.any():
            raise SettingsError(
                "on_termination: at gamma = 1 a policy that is absorbed has no value, found "
                "'absorb' and terminations in the log. Use 'restart', or gamma < 1."
            )

    @property
    def restart(self) -> bool:
        """Whether a termination is followed by a fresh start."""
        return self.on_termination == "restart"

    @property
    def zero_means(self) -> bool:
        """Whether reward 0 is more than a point on a scale: an absorbed episode earns it."""
        onward = not self.restart and self.gamma > 0.0
        return onward and bool(self.logs.terminated.any())

    @cached_property
    def units(self) -> RewardUnits:
        """Mean and standard deviation of the rewards; where `zero_means`, their zero stays."""
        return reward_units(self.logs.reward, zero_means=self.zero_means)

    @cached_property
    def standard(self) -> Query:
        """The same query with its rewards in `units`; it shares this one's features."""
        logs = replace(self.logs, reward=self.units.into(self.logs.reward))
        return replace(self, logs=logs, _logged=self)

    @property
    def key(self) -> PRNGKeyArray:
        """The key, for a method that needs one."""
        assert self.rng_key is not None, "a query without a key was refused"
        return self.rng_key

    @property
    def labels(self) -> bool:
        """Whether states and actions are labels."""
        return not (self.logs.vector_states or self.logs.vector_actions)

    def rows(
        self,
        features: FeatureChoice | None = None,
        *,
        renormalize: bool = False,
        merge: bool = False,
    ) -> Rows:
        """Rows of the Bellman equation of the log under the policy.

        Parameters
        ----------
        features
            None: one-hot for labels; for vectors the default features of `bayesdice_ppl.fit`.
        renormalize
            On one-hot features: let the candidate take only actions that were logged in a state, in
            proportion to its own probabilities. False: other actions have Q = 0.
        merge
            Of labels: count transitions that agree in everything, the reward too, as one row.

        Notes
        -----
        Where Q = 0 that is in the query's own unit of reward: of a `standard` query it is the value
        of the log's mean reward.

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            The policy does not cover the log, or a key is missing.
        """
        if features is not None:
            return self._on_features(features)
        if not self.labels:
            return self._default_rows
        return label_rows(
            self.logs,
            self.policy,
            self.gamma,
            restart=self.restart,
            renormalize=renormalize,
            merge=merge,
        )

    @cached_property
    def _default_rows(self) -> FeatureRows:
        if self._logged is None:
            return self._on_features(None)
        rows = self._logged._default_rows
        reward = self._logged.units.into(rows.step.reward)
        reward.flags.writeable = False
        return rows._replace(step=rows.step._replace(reward=reward))

    def _on_features(self, features: FeatureChoice | None) -> FeatureRows:
        return feature_rows(
            self.logs,
            self.policy,
            self.gamma,
            restart=self.restart,
            features=features,
            rng_key=self.rng_key,
        )


def check_needs(method: Baseline, query: Query, level: float) -> None:
    """Refuse a query that lacks what a method needs.

    Raises
    ------
    LogsError, SettingsError
        With what is missing and what to do.
    """
    name, needs, logs = method.name, method.needs, query.logs
    between("level", level, 0.0, 1.0)
    if needs.bandit and query.gamma != 0.0:
        raise SettingsError(
            f"gamma: {name} is for bandits, expected gamma = 0, found {query.gamma:g}."
        )
    if needs.propensities and logs.propensity is None:
        raise LogsError(
            f"{name} needs the probability of each logged action, and the log has no column "
            "propensity. Add one; or count the behavior policy (behavior='fitted', by name "
            f"{method.short}:fitted); or use a method that does not need it."
            f"{logs.proposal('propensity')}"
        )
    if needs.labels and not query.labels:
        part = "states" if logs.vector_states else "actions"
        raise LogsError(f"{name} needs labels, and the log's {part} are vectors.")
    if needs.rng_key:
        if query.rng_key is None:
            raise SettingsError(f"{name} draws: give rng_key, such as jax.random.key(0).")
        check_key(query.rng_key)


class Estimator(Baseline, ABC):
    """A baseline that checks what it needs, then answers. Its subclasses are frozen dataclasses.

    A subclass states its `name` and adds `answer`. The fields are its settings; those with an
    effect only beside others are declared by `bayesdice_ppl.baselines.settings.only_with`.

    A constant that is added to all rewards must be added to the value, and a factor multiply it.
    Whatever else in a method has the unit or the zero of the rewards, such as a ridge, a tolerance
    or what was never logged, breaks this. A method that is `standardized` is asked in rewards
    of mean 0 and standard deviation 1, and what it says is brought back; others see to it by
    themselves, as those with settings in units of reward have to.
    """

    @property
    def standardized(self) -> bool:
        """Whether `answer` gets rewards of mean 0 and standard deviation 1, see `Query.units`."""
        return False

    @property
    def short(self) -> str:
        """Name for `make` and `--method`: as in tables, unless there is a shorter one."""
        return self.name

    @property
    def needs(self) -> Needs:
        """Nothing beside transitions; for the features of vectors a key."""
        return Needs()

    @property
    def gives(self) -> str:
        """``"estimate"``, ``"interval"`` or ``"draws"``."""
        return "estimate"

    def estimate(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        *,
        gamma: float,
        level: float = 0.9,
        rng_key: PRNGKeyArray | None = None,
        on_termination: str = "restart",
    ) -> Estimate:
        """Estimate the normalized value of a policy; see `Baseline.estimate`."""
        return self.ask(Query(logs, policy, gamma, rng_key, on_termination), level)

    def ask(self, query: Query, level: float = 0.9) -> Estimate:
        """Check a query, and answer it.

        Parameters
        ----------
        query
            The log and the candidate.
        level
            Nominal coverage of the interval, in (0, 1).

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            The log or the candidate does not suit the method.
        """
        check_needs(self, query, level)
        if not self.standardized:
            return self.answer(query, level)
        return self.answer(query.standard, level).back(query.units)

    @abstractmethod
    def answer(self, query: Query, level: float) -> Estimate:
        """Answer a query that has been checked, in its units of reward; see `ask`."""
