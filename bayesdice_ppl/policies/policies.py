"""The candidates: named policies, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
import polars as pl

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.tables import to_polars
from bayesdice_ppl.policies.gaussian import ContinuousPolicy
from bayesdice_ppl.policies.tabular import Policy, TabularPolicy


@final
class Policies(Mapping[str, Policy | ContinuousPolicy]):
    """Candidate policies by name.

    Parameters
    ----------
    policies
        Name -> policy. A policy is anything with a method ``probs(obs) -> (batch, n_actions)``,
        `TabularPolicy` among them, or, for continuous actions, with ``sample`` and ``log_prob``,
        `GaussianPolicy` among them.

    Raises
    ------
    PoliciesError
        No candidates, a name that is no string, or an object that is no policy.
    """

    def __init__(self, policies: Mapping[str, Policy | ContinuousPolicy]):
        if policies is not None and not isinstance(policies, Mapping):
            raise PoliciesError(
                f"expected a dict of name -> policy, found {type(policies).__name__}."
            )
        if not policies:
            raise PoliciesError("no candidate policies were given; expected at least one.")
        for name, policy in policies.items():
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise PoliciesError(
                    f"policy names must be printable strings that are not blank, found {name!r}."
                )
            if not isinstance(policy, Policy | ContinuousPolicy):
                raise PoliciesError(
                    f"policy {name!r}: expected an object with a method probs(obs) -> (batch, "
                    "n_actions), or for continuous actions with sample(rng_key, obs, n) and "
                    f"log_prob(obs, action), found {type(policy).__name__}."
                )
        self._policies = dict(policies)

    @classmethod
    def from_dataframe(cls, frame: Any, *, columns: Mapping[str, str] | None = None) -> Policies:
        """Validate any dataframe with the columns ``policy, state, action, prob``.

        Parameters
        ----------
        frame
            A polars, pandas, pyarrow, ... dataframe; a pair that is left out has probability 0.
        columns
            Our name -> the table's name.

        Raises
        ------
        PoliciesError
            With the row, the policy and the state.
        """
        from bayesdice_ppl.policies.reading import build_policies

        return build_policies(to_polars(frame, PoliciesError), columns=columns)

    @property
    def tabular(self) -> bool:
        """Whether every candidate is a table."""
        return all(isinstance(policy, TabularPolicy) for policy in self.values())

    def to_dataframe(self) -> pl.DataFrame:
        """Tabular candidates as a polars frame ``policy, state, action, prob``.

        Raises
        ------
        PoliciesError
            A candidate is not tabular.
        """
        frames = []
        for name, policy in self.items():
            if not isinstance(policy, TabularPolicy):
                raise PoliciesError(f"policy {name!r} is not a table and has no rows to write.")
            n_states, n_actions = policy.probabilities.shape
            frames.append(
                pl.DataFrame(
                    {
                        "policy": [name] * (n_states * n_actions),
                        "state": np.repeat(policy.states, n_actions).tolist(),
                        "action": np.tile(policy.actions, n_states).tolist(),
                        "prob": policy.probabilities.ravel(),
                    }
                )
            )
        return pl.concat(frames)

    def __getitem__(self, name: str) -> Policy | ContinuousPolicy:
        return self._policies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def __repr__(self) -> str:
        return f"Policies({', '.join(self._policies)})"
