"""A policy that knows the labels of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from bayesdice_ppl.policies.interface import Policy


@runtime_checkable
class KnowsActions(Policy, Protocol):
    """A policy that says which action each of its columns is."""

    @property
    def action_labels(self) -> Shaped[np.ndarray, " A"]:
        """Labels of the columns of ``probs``, shape (A,)."""
        ...


@final
@dataclass(frozen=True, eq=False)
class LabeledPolicy:
    """Another policy, with labels for the columns that it gives.

    Parameters
    ----------
    policy
        The policy.
    action_labels
        Labels of its columns, shape (A,), of integers or strings.
    """

    policy: Policy
    action_labels: Shaped[np.ndarray, " A"]

    def probs(self, obs: Any) -> Any:
        """Probabilities of the actions in the states ``obs``, shape (batch, A)."""
        return self.policy.probs(obs)
