"""What every baseline is: logs and one policy in; a value, and perhaps an interval or draws, out.

A baseline says what it needs before it is asked, so that a log without propensities, or with
vectors for states, is refused with a reason instead of answered with made-up numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.keys import check_key
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import ContinuousPolicy, Policy


@final
class Estimate(NamedTuple):
    """What a baseline says of one policy's value, in reward per step.

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
        On how many episodes the estimate rests, of a method that weighs whole episodes or their
        steps by importance weights, or None; at gamma = 0, where each row is an episode of its own,
        on how many rows. See `bayesdice_ppl.baselines.per_trajectory.effective_episodes`.
    """

    value: float
    lower: float | None = None
    upper: float | None = None
    draws: Float[np.ndarray, " S"] | None = None
    effective_episodes: float | None = None


@final
class Needs(NamedTuple):
    """What a baseline asks of a log, beside transitions.

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


@runtime_checkable
class Baseline(Protocol):
    """An estimator of one policy's value from logs of another.

    Attributes
    ----------
    name : str
        Name in tables.
    short : str
        Name for `make` and `--method`, such as ``"wpdis:bca"``: `make` gives the method back.
    needs : Needs
        What it asks of a log.
    gives : str
        ``"estimate"``, ``"interval"`` or ``"draws"``: the most that its `Estimate` holds.
    """

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def short(self) -> str:
        """Name for `make` and `--method`."""

    @property
    def needs(self) -> Needs:
        """What it asks of a log."""

    @property
    def gives(self) -> str:
        """The most that its `Estimate` holds."""

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
@dataclass(frozen=True)
class Asked:
    """Settings of one question, checked.

    Attributes
    ----------
    gamma, level
        As asked.
    restart
        Whether a termination is followed by a fresh start.
    """

    gamma: float
    level: float
    restart: bool


def check_question(
    baseline: Baseline,
    logs: Logs,
    *,
    gamma: float,
    level: float,
    rng_key: PRNGKeyArray | None,
    on_termination: str,
) -> Asked:
    """Hold a question against what a baseline needs; every `estimate` begins with it.

    Raises
    ------
    LogsError, SettingsError
        With what is missing and what to do.
    """
    name, needs = baseline.name, baseline.needs
    if not isinstance(logs, Logs):
        raise LogsError(
            f"logs: expected Logs (read_logs or Logs.from_dataframe), found {type(logs).__name__}."
        )
    if isinstance(gamma, bool) or not isinstance(gamma, int | float | np.number):
        raise SettingsError(f"gamma: expected a number in [0, 1], found {gamma!r}.")
    if not 0.0 <= gamma <= 1.0:
        raise SettingsError(f"gamma: expected a number in [0, 1], found {gamma}.")
    if not 0.0 < level < 1.0:
        raise SettingsError(f"level: expected a number in (0, 1), found {level}.")
    if on_termination not in ("restart", "absorb"):
        raise SettingsError(
            f"on_termination: expected 'restart' or 'absorb', found {on_termination!r}."
        )
    if needs.bandit and gamma != 0.0:
        raise SettingsError(f"{name} is for bandits, gamma = 0; found gamma = {gamma:g}.")
    if needs.propensities and logs.propensity is None:
        raise LogsError(
            f"{name} needs the probability of each logged action, and the log has no column "
            "propensity. Add one, or ask for a fitted behavior policy (behavior='fitted', by name "
            f"{baseline.short}:fitted), or use a method that does not need it."
        )
    if needs.labels and (logs.vector_states or logs.vector_actions):
        part = "states" if logs.vector_states else "actions"
        raise LogsError(f"{name} needs labels, and the log's {part} are vectors.")
    if needs.rng_key:
        if rng_key is None:
            raise SettingsError(f"{name} draws: give rng_key, such as jax.random.key(0).")
        check_key(rng_key)
    if on_termination == "absorb" and gamma == 1.0 and logs.terminated.any():
        raise SettingsError(
            "at gamma = 1 absorbing terminations leave nothing to value: use 'restart'."
        )
    return Asked(float(gamma), float(level), on_termination == "restart")


class Checked(ABC):
    """A baseline whose questions are held against its needs before they are answered.

    What a concrete one adds is its `answer`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables."""

    @property
    def short(self) -> str:
        """Name for `make` and `--method`: as in tables, unless there is a shorter one."""
        return self.name

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """What it asks of a log."""

    @property
    @abstractmethod
    def gives(self) -> str:
        """The most that its `Estimate` holds."""

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
        asked = check_question(
            self, logs, gamma=gamma, level=level, rng_key=rng_key, on_termination=on_termination
        )
        return self.answer(logs, policy, asked, rng_key)

    @abstractmethod
    def answer(
        self,
        logs: Logs,
        policy: Policy | ContinuousPolicy,
        asked: Asked,
        rng_key: PRNGKeyArray | None,
    ) -> Estimate:
        """Answer a question that has been checked.

        Parameters
        ----------
        logs, policy
            The log and the candidate.
        asked
            Discount, level, and how terminations are read.
        rng_key
            A key wherever the method needs one.

        Raises
        ------
        LogsError, PoliciesError, SettingsError
            The log or the candidate does not suit the method.
        """


class Drawing(Checked):
    """A baseline that gives posterior draws."""

    @property
    def gives(self) -> str:
        """Posterior draws."""
        return "draws"
