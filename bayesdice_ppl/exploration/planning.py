"""The policy that may be best by a belief, found by planning.

The score U is convex in the occupancy, so its best policies are deterministic, and a policy that is
optimal for the slope of U is at least as good as the one at which the slope was taken. The search
repeats this step from several starts. It gives a local optimum, and no proof of a global one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl import checks
from bayesdice_ppl.exploration.spaces import Beliefs, PolicySpace, space_of
from bayesdice_ppl.models import Optimism

_ROUNDS = 100


class FoundPolicy(NamedTuple):
    """The policy that a search found.

    Attributes
    ----------
    policy
        On tables probabilities, shape (S, A). Through features the weights of a policy that takes
        the best action by a linear function, shape (k, A).
    belief
        The belief of its value: its ``mean`` and ``variance`` are scalars.
    score
        Its U.
    """

    policy: Float[np.ndarray, "K A"]
    belief: Any
    score: float


@final
class Planning(NamedTuple):
    """The engine that plans; make one with `planning`.

    Attributes
    ----------
    starts
        How many of the most uncertain pairs a start goes to.
    refined
        How many of the starts, the best first, are improved.
    """

    starts: int = 32
    refined: int = 4

    def __str__(self) -> str:
        return with_settings("planning", self._asdict(), self._field_defaults)

    @property
    def averages(self) -> bool:
        """Whether it can maximize the average reward: on tables it can."""
        return True

    def find(
        self, beliefs: Beliefs, gamma: float, optimism: Optimism, rng: np.random.Generator
    ) -> FoundPolicy:
        """The best policy by U that the search finds; it uses no random number.

        Parameters
        ----------
        beliefs
            The completed log.
        gamma
            Discount in [0, 1]; through features below 1.
        optimism
            U.
        rng
            Not used: every engine has one.
        """
        space = space_of(beliefs, gamma)
        tried = self._tried(space, optimism)
        best = tried[0]
        for one in tried[: self.refined]:
            better = _improve(space, one, optimism)
            best = better if better.score > best.score else best
        return best

    def candidates(self, beliefs: Beliefs, gamma: float, optimism: Optimism) -> list[FoundPolicy]:
        """The different policies that the search starts from, the best by U first.

        Parameters
        ----------
        beliefs, gamma, optimism
            As for `find`.
        """
        return self._tried(space_of(beliefs, gamma), optimism)

    def _tried(self, space: PolicySpace, optimism: Optimism) -> list[FoundPolicy]:
        found = {}
        for policy in self._starts(space, optimism):
            name = space.actions(policy).tobytes()
            if name not in found:
                found[name] = judge(space, policy, optimism)
        # Through features a value may be beyond what rewards allow: then the model says nothing.
        least = min(space.beyond(one.belief) for one in found.values())
        possible = [one for one in found.values() if space.beyond(one.belief) <= least]
        return sorted(possible, key=lambda one: -one.score)

    def _starts(self, space: PolicySpace, optimism: Optimism) -> Iterator[Float[np.ndarray, "K A"]]:
        greedy = space.optimal(space.reward, None)
        yield greedy
        variance = space.pair_variance(space.belief(greedy))
        bonus = optimism.score(np.zeros_like(variance), variance, np.asarray(space.steps))
        if not bonus.any():
            return
        yield space.optimal(space.reward + space.as_reward(bonus), greedy)
        usable = np.where(space.seen[:, None], variance, -1.0)
        for pair in np.argsort(-usable, axis=None, kind="stable")[: self.starts]:
            if usable.flat[pair] <= 0.0:
                return
            # Where all actions lead there alike, those that are best in the mean.
            yield space.optimal(space.aim(int(pair)), greedy)


def judge(space: PolicySpace, policy: Float[np.ndarray, "K A"], optimism: Optimism) -> FoundPolicy:
    """The belief of a policy, and its U.

    Parameters
    ----------
    space
        Policies of its kind.
    policy
        The policy.
    optimism
        U.
    """
    belief = space.belief(policy)
    score = optimism.score(belief.mean, belief.variance, np.asarray(space.steps))
    return FoundPolicy(policy, belief, min(float(score), space.highest))


def _improve(space: PolicySpace, found: FoundPolicy, optimism: Optimism) -> FoundPolicy:
    """Follow the slope of U until U no longer grows."""
    for _ in range(_ROUNDS):
        rise = optimism.slope(found.belief.variance, np.asarray(space.steps))
        slope = space.reward + 2.0 * float(rise) * space.variance_slope(found.belief)
        moved = judge(space, space.optimal(slope, found.policy), optimism)
        if moved.score <= found.score or space.beyond(moved.belief) > 0.0:
            break
        found = moved
    return found


def with_settings(name: str, settings: dict[str, Any], defaults: dict[str, Any]) -> str:
    """The text of an engine: its name, with the settings that are not the default."""
    said = [f"{key}={value:g}" for key, value in settings.items() if defaults.get(key) != value]
    return f"{name}({', '.join(said)})" if said else name


def planning(*, starts: int = 32, refined: int = 4) -> Planning:
    """The engine that plans: U in the limit of a large lambda_2, where all but pi is closed form.

    Parameters
    ----------
    starts
        How many of the most uncertain pairs a start goes to, at least 0.
    refined
        How many of the starts are improved, at least 1.

    Raises
    ------
    SettingsError
        A number is too small.
    """
    return Planning(
        checks.whole("planning: starts", starts, 0), checks.whole("planning: refined", refined)
    )
