"""The candidates: named policies in a fixed order, from objects, a dataframe or a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import polars as pl

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.tables import to_polars
from bayesdice_ppl.policies.given import as_policy, is_dataframe
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.table import read_tables, write_tables
from bayesdice_ppl.policies.tabular import TabularPolicy


@final
class Policies(Mapping[str, Policy | ContinuousPolicy]):
    """Candidate policies by name.

    Parameters
    ----------
    policies
        Name -> policy, or a table as `from_dataframe` takes. A policy is anything with a method
        ``probs(obs) -> (batch, n_actions)``, `TabularPolicy` among them, or, for continuous
        actions, with ``sample`` and ``log_prob``, `GaussianPolicy` among them. It may also be a
        function ``f(states) -> (batch, n_actions)``, a dict ``{state: action}`` or ``{state:
        {action: probability}}``, an array of shape (S, A) for states 0 .. S-1 and actions
        0 .. A-1, or a dataframe: with the columns ``state, action, prob``, or, in pandas, with
        states as its index and actions as its columns.

    Raises
    ------
    PoliciesError
        There are no candidates, a name is not a string, or an object is not a policy.
    """

    def __init__(self, policies: Mapping[str, Any] | Any):
        if is_dataframe(policies):
            policies = read_tables(to_polars(policies, PoliciesError), None)
        if policies is not None and not isinstance(policies, Mapping):
            raise PoliciesError(
                f"policies: expected a dict of name -> policy, found {type(policies).__name__}."
            )
        if not policies:
            raise PoliciesError("policies: expected at least one candidate, found none.")
        for name in policies:
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise PoliciesError(
                    "policies: expected names that are printable strings and not blank, found "
                    f"{name!r}."
                )
        self._policies = {name: as_policy(name, policy) for name, policy in policies.items()}

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
        return cls(read_tables(to_polars(frame, PoliciesError), columns))

    @property
    def notes(self) -> list[str]:
        """What was done to the candidates: rows made to sum to 1, and columns not used."""
        unused = dict.fromkeys(
            column for policy in self.values() for column in getattr(policy, "left_out", ())
        )
        told = f"columns of the candidates that have no meaning were left out: {listed(unused)}"
        return [told] * bool(unused) + [
            f"the probabilities of {name} were written with few decimals, and sums were off by up "
            f"to {policy.rounding:.2g}: each was divided by its state's sum"
            for name, policy in self.items()
            if isinstance(policy, TabularPolicy) and policy.rounding > 0.0
        ]

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
        tables: dict[str, TabularPolicy] = {}
        for name, policy in self.items():
            if not isinstance(policy, TabularPolicy):
                raise PoliciesError(
                    f"policy {name!r}: expected a TabularPolicy, which has rows to write, found "
                    f"{type(policy).__name__}."
                )
            tables[name] = policy
        return write_tables(tables)

    def __getitem__(self, name: str) -> Policy | ContinuousPolicy:
        return self._policies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def __repr__(self) -> str:
        return f"Policies({', '.join(self._policies)})"
