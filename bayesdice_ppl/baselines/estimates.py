"""One method's answers for all candidates: a table, an order, and a belief where there are draws.

Every candidate is asked for with the same key, so draws from one posterior over worlds are joint
over the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import polars as pl
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.baselines.interface import Baseline, Estimate, Query, check_needs
from bayesdice_ppl.baselines.registry import METHODS, make
from bayesdice_ppl.baselines.support import Answers, support_of, warn_of_support
from bayesdice_ppl.checks import one_of
from bayesdice_ppl.errors import BayesDiceError, LogsError, SettingsError
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.policies import Policies, align_policies

if TYPE_CHECKING:
    from xarray import DataTree

ORDERS = ("value", "lower", "upper")
"""What candidates can be put in order by."""


@final
@dataclass(frozen=True, eq=False)
class Estimates(Answers):
    """What a method says of all candidates; `estimate_all` makes it.

    Its fields are those of `bayesdice_ppl.baselines.support.Answers`.
    """

    @property
    def table(self) -> pl.DataFrame:
        """Columns `policy, value, lower, upper`, in reward per step; null where there is none.

        Where the method weights episodes there is also `effective_episodes`, how many of them each
        estimate rests on.
        """
        numbers = ["value", "lower", "upper"]
        if any(each.effective_episodes is not None for each in self.estimates):
            numbers.append("effective_episodes")
        return pl.DataFrame(
            {"policy": list(self.names)}
            | {name: [getattr(each, name) for each in self.estimates] for name in numbers},
            schema={"policy": pl.String} | dict.fromkeys(numbers, pl.Float64),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The question and the method's settings, as JSON can hold them."""
        return {
            "method": self.method.short,
            "gamma": self.gamma,
            "level": self.level,
            "on_termination": self.on_termination,
            **_plain(self.method),
        }

    @property
    def has_draws(self) -> bool:
        """Whether every candidate has draws, so that there is a belief."""
        return all(each.draws is not None for each in self.estimates)

    def order(self, by: str = "value") -> list[str]:
        """Put the candidates in order, best first, those that are equal by name.

        Parameters
        ----------
        by
            ``"value"``, or the ``"lower"`` or ``"upper"`` end of the interval.

        Raises
        ------
        SettingsError
            It is another word, or the method gives no interval.
        """
        column = self.table[one_of("by", by, ORDERS)]
        if column.null_count():
            raise no_interval(self.method, f"by={by!r}")
        keys = dict(zip(self.names, column.to_list(), strict=True))
        return sorted(self.names, key=lambda name: (-keys[name], name))

    def belief(self) -> DataTree:
        """Lay the draws out as a belief, which `bayesdice_ppl.select` ranks under any score.

        Returns
        -------
        xarray.DataTree
            ``posterior/value`` with the dims (chain, draw, policy), in reward per step. For logs of
            labels it has what the log supports of every candidate, as the belief of
            `bayesdice_ppl.fit` does, and the same thresholds keep `select` from recommending.

        Raises
        ------
        SettingsError
            The method gives no draws.
        """
        from bayesdice_ppl.belief import make_belief, origin

        if not self.has_draws:
            raise SettingsError(
                f"{self.method.short} gives no draws, and so no belief. Use order(by='value')."
            )
        restart = self.on_termination == "restart"
        figures, attributes = support_of(self)
        measured: dict[str, Any] = figures | attributes
        return make_belief(
            np.column_stack([np.asarray(each.draws) for each in self.estimates]),
            self.names,
            method=self.method.short,
            settings=self.settings,
            **origin(self.logs, gamma=self.gamma, restart=restart, rng_key=self.rng_key),
            **measured,
        )

    @cached_property
    def support_warnings(self) -> tuple[str, ...]:
        """What the log cannot tell of the candidates, a sentence each.

        For logs of vectors support is not measured: only the answers themselves are checked.
        """
        return tuple(f"{each['policy']}: {each['reason']}" for each in warn_of_support(self))

    def __repr__(self) -> str:
        head = f"Estimates({self.method.short}, {len(self.names)} policies)"
        warnings = [f"Warning: {sentence}" for sentence in self.support_warnings]
        return "\n".join([head, str(self.table), *warnings])


def estimate_all(
    method: Baseline | str,
    logs: Logs,
    policies: Mapping[str, Any],
    *,
    gamma: float,
    level: float = 0.9,
    rng_key: PRNGKeyArray | None = None,
    on_termination: str = "restart",
) -> Estimates:
    """Ask a method for every candidate's value.

    Parameters
    ----------
    method
        A `Baseline`, or its name as for `make`.
    logs
        Logged transitions.
    policies
        Name -> candidate: an object, a function, a dict, an array or a table, as `Policies` takes.
    gamma
        Discount in [0, 1].
    level
        Nominal coverage of the intervals, in (0, 1).
    rng_key
        For methods that draw; the same for every candidate, so that their draws are joint.
    on_termination
        ``"restart"`` or ``"absorb"``, as for `bayesdice_ppl.fit`.

    Returns
    -------
    Estimates
        With a table, an order, and a belief where there are draws.

    Raises
    ------
    LogsError, PoliciesError, SettingsError
        The input does not suit the method. An error about one candidate begins with its name,
        though the log or a setting may be the cause.
    """
    chosen = make(method) if isinstance(method, str) else method
    if not isinstance(chosen, Baseline):
        raise SettingsError(
            f"method: expected a baseline or its name, found {type(chosen).__name__}."
        )
    candidates = policies if isinstance(policies, Policies) else Policies(policies)
    first = next(iter(candidates.values()))
    query = Query(logs, first, gamma, rng_key, on_termination)
    check_needs(chosen, query, level)
    shown = logs
    if not logs.vector_actions:
        # One action space for all, which one candidate alone may not know.
        aligned = align_policies(logs, candidates, needs_successors=False)
        shown = replace(logs, declared_actions=aligned.actions)
    estimates = []
    for name, policy in candidates.items():
        try:
            found = chosen.estimate(
                shown,
                policy,
                gamma=gamma,
                level=level,
                rng_key=rng_key,
                on_termination=on_termination,
            )
        except BayesDiceError as cause:
            raise type(cause)(_with_name(name, str(cause))) from cause
        _check_finite(name, chosen, found)
        estimates.append(found)
    return Estimates(
        chosen,
        tuple(candidates),
        tuple(estimates),
        logs,
        candidates,
        query.gamma,
        float(level),
        rng_key,
        on_termination,
    )


def no_interval(method: Baseline, what: str) -> SettingsError:
    """The error of asking for an interval where there is none."""
    base = method.short.partition(":")[0]
    options = [f"{base}:{o}" for o in METHODS[base].options] if base in METHODS else []
    options = [each for each in options if not each.endswith(":fitted")]
    instead = f"; {', '.join(options)} give one" if options else ""
    return SettingsError(
        f"{what} needs an interval, and {method.short} gives an estimate alone{instead}."
    )


def _with_name(name: str, message: str) -> str:
    # Of one policy alone, methods call it "policy" themselves.
    if message.startswith("policy 'policy'"):
        return f"policy {name!r}{message.removeprefix("policy 'policy'")}"
    return f"policy {name!r}: {message.removeprefix('policy: ')}"


def _check_finite(name: str, method: Baseline, found: Estimate) -> None:
    numbers = [found.value, *(end for end in (found.lower, found.upper) if end is not None)]
    if found.draws is not None:
        numbers += np.asarray(found.draws).tolist()
    if found.lower is not None and found.upper is not None and found.lower > found.upper:
        raise LogsError(
            f"policy {name!r}: expected an interval from {method.short}, found its lower end, "
            f"{found.lower:g}, above its upper end, {found.upper:g}. The log says too little about "
            "this candidate for this method: use another one, or a longer log."
        )
    wrong = [number for number in numbers if not np.isfinite(number)]
    if wrong:
        raise LogsError(
            f"policy {name!r}: expected a finite number from {method.short}, found {wrong[0]:g}. "
            "The log says too little about this candidate for this method: use another one, or a "
            "longer log."
        )


def _plain(thing: Any) -> Any:
    """Settings as JSON can hold them."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: _plain(getattr(thing, field.name)) for field in fields(thing)}
    if isinstance(thing, tuple) and hasattr(thing, "_asdict"):
        return {key: _plain(value) for key, value in thing._asdict().items()}
    if isinstance(thing, list | tuple):
        return [_plain(each) for each in thing]
    return thing if thing is None or isinstance(thing, bool | int | float | str) else str(thing)


__all__ = ["ORDERS", "Estimates", "estimate_all"]
