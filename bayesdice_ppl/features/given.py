"""Features that the user gives: a table of numbers for labels, or a function of points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import Points, Space, unit_size


@final
class TableMap(NamedTuple):
    """Features looked up by the codes of state and action.

    Attributes
    ----------
    values
        Shape (S, A, d) in the user's order, each feature divided by its size over the log.
    state_row, action_row
        Where the log's codes stand in it, shapes (S',) and (A',).
    """

    values: Float[np.ndarray, "S A d"]
    state_row: Int[np.ndarray, " S2"]
    action_row: Int[np.ndarray, " A2"]

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points."""
        return self.values[self.state_row[points.state], self.action_row[points.action]]


@final
class Table:
    """A choice of features by table; make one with `table`."""

    __slots__ = ("actions", "states", "values")

    def __init__(
        self, values: Float[np.ndarray, "S A d"], states: list[Any], actions: list[Any]
    ) -> None:
        self.values, self.states, self.actions = values, states, actions

    @property
    def sees(self) -> frozenset[str]:
        """Both parts."""
        return frozenset(("state", "action"))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> TableMap:
        """Find the log's labels in the table."""
        rows = []
        for part, given in (("state", self.states), ("action", self.actions)):
            labels = space.labels(part)
            if labels is None:
                raise SettingsError(
                    f"features.table: expected {part}s that are labels, found vectors. Use "
                    "features.function."
                )
            where = {label: i for i, label in enumerate(given)}
            missing = [label for label in labels.tolist() if label not in where]
            if missing:
                raise SettingsError(
                    f"features.table: expected every {part} of the log and the action space, found "
                    f"no {missing[0]!r} ({len(missing)} missing). Add its features."
                )
            rows.append(np.array([where[label] for label in labels.tolist()]))
        plain = TableMap(self.values, *rows)
        return plain._replace(values=self.values / unit_size(plain(space.points)))

    def __str__(self) -> str:
        return "table({} states, {} actions, {} features)".format(*self.values.shape)


@final
class FunctionMap(NamedTuple):
    """A function of the user's whose results are checked.

    Attributes
    ----------
    function
        (obs, action) -> (b, d).
    space
        The labels that it is called with.
    size
        By which each feature is divided, shape (d,): its root mean square over the log.
    """

    function: Callable[[Any, Any], Any]
    space: Space
    size: Float[np.ndarray, " d"] | None = None

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points."""
        arguments = []
        for part in ("state", "action"):
            values, labels = getattr(points, part), self.space.labels(part)
            arguments.append(values if labels is None else labels[values])
        found = self.function(*arguments)
        try:
            table = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as cause:
            raise SettingsError(
                f"features.function: expected an array of numbers, found {type(found).__name__}."
            ) from cause
        if table.ndim != 2 or len(table) != len(points.state):
            raise SettingsError(
                "features.function: expected a function that gives shape (batch, d), found "
                f"{table.shape} for {len(points.state)} points."
            )
        if not np.isfinite(table).all():
            raise SettingsError("features.function: expected finite numbers, found others.")
        if self.size is None:
            return table
        if table.shape[1] != len(self.size):
            raise SettingsError(
                "features.function: expected as many features for all points, found "
                f"{len(self.size)} for some points and {table.shape[1]} for others."
            )
        return table / self.size


@final
class Function:
    """A choice of features by function; make one with `function`."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[Any, Any], Any]) -> None:
        self.call = call

    @property
    def sees(self) -> frozenset[str]:
        """Both parts, as far as anyone knows."""
        return frozenset(("state", "action"))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> FunctionMap:
        """Wrap the function, and take its features' sizes over the log."""
        plain = FunctionMap(self.call, space)
        return plain._replace(size=unit_size(plain(space.points)))

    def __str__(self) -> str:
        return f"function({getattr(self.call, '__name__', type(self.call).__name__)})"


def table(values: Any, *, states: Sequence[Any], actions: Sequence[Any]) -> Table:
    """Features of labels by table, each divided by its root mean square over the log.

    Parameters
    ----------
    values
        Shape (S, A, d), finite.
    states, actions
        Labels of the first two axes, in order.

    Raises
    ------
    SettingsError
        The shapes do not fit, a label comes twice, or a number is not finite.
    """
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise SettingsError(
            f"features.table: expected an array of numbers, found {type(values).__name__}."
        ) from cause
    names = [np.asarray(labels).tolist() for labels in (states, actions)]
    expected = tuple(len(labels) for labels in names)
    if found.ndim != 3 or found.shape[:2] != expected:
        raise SettingsError(
            f"features.table: expected shape ({expected[0]}, {expected[1]}, d) for {expected[0]} "
            f"states and {expected[1]} actions, found {found.shape}."
        )
    for part, labels in zip(("states", "actions"), names, strict=True):
        if len(set(labels)) != len(labels):
            raise SettingsError(
                f"features.table: {part}: expected every label once, found one twice."
            )
    if not np.isfinite(found).all():
        raise SettingsError("features.table: expected finite numbers, found others.")
    return Table(found, *names)


def function(call: Callable[[Any, Any], Any]) -> Function:
    """Features by a function, each divided by its root mean square over the log.

    Parameters
    ----------
    call
        (obs, action) -> (batch, d): vectors of shapes (batch, p) and (batch, q) or labels of shape
        (batch,), as the log holds them. It is called with many points at once.

    Raises
    ------
    SettingsError
        It cannot be called.
    """
    if not callable(call):
        raise SettingsError(
            f"features.function: expected a function (obs, action) -> (batch, d), found "
            f"{type(call).__name__}."
        )
    return Function(call)
