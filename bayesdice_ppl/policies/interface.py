"""What a candidate must offer: probabilities of its actions, or draws of them and their density.

Where actions are labels, a policy gives the probability of each. Where actions are vectors, it
draws actions and gives their density. Simulation, importance weights and means of features ask for
nothing else. A policy that says that its actions are normal is spared the sampling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray


@runtime_checkable
class Policy(Protocol):
    """Anything that gives the probabilities of its actions in a batch of states."""

    def probs(self, obs: Any) -> Any:
        """Probabilities of the actions in the states ``obs`` (batch,): (batch, n_actions)."""
        ...


@runtime_checkable
class ContinuousPolicy(Protocol):
    """Anything that draws actions, vectors of q numbers, and knows their density."""

    def sample(self, rng_key: PRNGKeyArray, obs: Any, n: int) -> Any:
        """Draw n actions in each of the observations ``obs`` (batch, p): (n, batch, q)."""
        ...

    def log_prob(self, obs: Any, action: Any) -> Any:
        """Log density of ``action`` (..., batch, q) in ``obs`` (batch, p): (..., batch)."""
        ...


@runtime_checkable
class SymmetricPolicy(ContinuousPolicy, Protocol):
    """A policy whose actions are as likely on the other side of their center."""

    def mirror(self, obs: Any, action: Any) -> Any:
        """The actions (n, batch, q) on the other side in ``obs`` (batch, p)."""
        ...


@runtime_checkable
class NormalPolicy(ContinuousPolicy, Protocol):
    """A policy whose actions are independent normal numbers, neither clipped nor squashed.

    A world may clip what it is given, as long as the log holds the action that was drawn.
    """

    def normal_moments(self, obs: Any) -> tuple[Any, Any]:
        """Mean (batch, q) and standard deviation, (), (q,) or (batch, q), of the actions."""
        ...
