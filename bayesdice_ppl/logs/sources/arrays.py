"""Arrays of another tool as columns: what is a label, what is a vector, and what is neither.

Integers and strings, one a row, are labels. Rows of numbers are vectors, and so is one number with
decimals. Images and dicts are refused: no column can hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Shaped

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError


class PointArray(NamedTuple):
    """Observations or actions, one a row.

    Attributes
    ----------
    values
        Labels, shape (n,), of integers or strings; or vectors, float64, shape (n, p).
    """

    values: Shaped[np.ndarray, "n *p"]

    @property
    def vectors(self) -> bool:
        """Whether they are vectors, and not labels."""
        return self.values.ndim == 2

    @property
    def words(self) -> str:
        """What they are, for people."""
        if not self.vectors:
            return "labels"
        size = self.values.shape[1]
        return "vectors of 1 number" if size == 1 else f"vectors of {size} numbers"

    def series(self, known: Bool[np.ndarray, " n"] | None = None) -> pl.Series:
        """A column of them, null where they are not known."""
        if self.vectors:
            column = pl.Series(self.values).cast(pl.List(pl.Float64))
        else:
            column = pl.Series(self.values)
        if known is None or known.all():
            return column
        return pl.select(pl.when(pl.Series(known)).then(column)).to_series()


def to_array(values: Any, where: str, what: str) -> np.ndarray:
    """Any array, list or tensor as NumPy's; tensors with gradients are detached first.

    Raises
    ------
    LogsError
        A dict, a tuple of arrays, or rows of different lengths.
    """
    if isinstance(values, Mapping | tuple):
        held = f"a dict of {listed(values)}" if isinstance(values, Mapping) else "a tuple of arrays"
        raise LogsError(f"{where}: expected {what} as one array, found {held}.")
    if hasattr(values, "detach"):
        values = values.detach()
    if hasattr(values, "cpu"):
        values = values.cpu()
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as cause:
        raise LogsError(
            f"{where}: expected {what} as one array, found rows of different lengths, or no array."
        ) from cause


def rows_of(values: Any, where: str, what: str) -> np.ndarray:
    """An array with one row a step or more axes; a single value is refused.

    Raises
    ------
    LogsError
        It is a single value, or no array.
    """
    array = to_array(values, where, what)
    if array.ndim == 0:
        raise LogsError(f"{where}: expected {what}, one a step, found a single {array.item()!r}.")
    return array


def read_count(value: Any, where: str, what: str) -> int:
    """A number of things.

    Raises
    ------
    LogsError
        It is no whole number, or below 0.
    """
    array = to_array(value, where, what)
    if array.shape == () and array.dtype.kind in "iuf" and is_whole_array(array) and array >= 0:
        return int(array)
    raise LogsError(f"{where}: expected {what} as a whole number, found {value!r}.")


def is_whole_array(array: np.ndarray) -> bool:
    """Whether all numbers are whole, and fit into 64 bits."""
    if array.dtype.kind in "iub":
        return True
    finite = array.dtype.kind == "f" and bool(np.isfinite(array).all())
    return finite and bool(((array == np.round(array)) & (np.abs(array) < 2**53)).all())


def read_points(values: Any, where: str, what: str, *, advice: str = "") -> PointArray:
    """Read observations or actions.

    Parameters
    ----------
    values
        An array or a list, one row a step.
    where
        Where they stand, for messages: ``Minari, episode 3``.
    what
        What they are there: ``observations``.
    advice
        What else the reader offers for observations that no column can hold.

    Raises
    ------
    LogsError
        Images, dicts, tuples, or rows that are no numbers and no labels.
    """
    if isinstance(values, Mapping | tuple):
        held = f"a dict of {listed(values)}" if isinstance(values, Mapping) else "a tuple of arrays"
        raise LogsError(
            f"{where}: expected {what} that are labels or vectors, found {held}. Join what matters "
            f"into one array, one row a step{advice}."
        )
    array = rows_of(values, where, what)
    if array.dtype.kind == "O":
        array = _without_objects(array, where, what)
    if array.ndim > 2:
        shape = " x ".join(str(size) for size in array.shape[1:])
        raise LogsError(
            f"{where}: expected {what} that are labels or vectors, found arrays of {shape}, such "
            f"as images. Reduce each to a vector or a label{advice}."
        )
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iufUS":
        raise LogsError(
            f"{where}: expected {what} that are numbers or labels, found {array.dtype}. Convert "
            "them."
        )
    if array.dtype.kind == "S":
        array = _decoded(array.tolist(), where, what)
    if array.ndim == 2:
        if array.dtype.kind == "U":
            raise LogsError(
                f"{where}: expected {what} that are one label or numbers, found rows of "
                f"{array.shape[1]} texts. Join them into one label."
            )
        return PointArray(array.astype(np.float64))
    if array.dtype.kind == "f":
        return PointArray(array.astype(np.float64)[:, None])
    return PointArray(array)


def _without_objects(array: np.ndarray, where: str, what: str) -> np.ndarray:
    """An array of Python's objects as one of texts, numbers or rows of numbers."""
    values = array.ravel().tolist()
    kinds = {type(value) for value in values}
    if (kinds and kinds <= {int, float, bool}) or kinds == {str}:
        inferred = np.array(values)
        if inferred.dtype.kind != "O":
            return inferred.reshape(array.shape)
    if kinds == {bytes} and array.ndim == 1:
        return _decoded(values, where, what)
    if kinds == {np.ndarray} and len({value.shape for value in values}) == 1:
        return np.stack(values)
    names = sorted("nothing" if kind is type(None) else kind.__name__ for kind in kinds)
    raise LogsError(
        f"{where}: expected {what} of one type and one length, found {', '.join(names[:5])}. "
        "Convert them to one array."
    )


def _decoded(values: list[Any], where: str, what: str) -> np.ndarray:
    try:
        return np.array([value.decode() for value in values])
    except (UnicodeDecodeError, AttributeError) as cause:
        raise LogsError(
            f"{where}: expected {what} that are labels or vectors, found bytes that are no text, "
            "such as images. Reduce each to a vector or a label."
        ) from cause


def as_labels_if_whole(points: PointArray) -> PointArray:
    """Labels, where a vector is one whole number: tools hold discrete actions as shape (n, 1)."""
    values = points.values
    if points.vectors and values.shape[1] == 1 and is_whole_array(values):
        return PointArray(values[:, 0].astype(np.int64))
    return points


def read_numbers(values: Any, n: int, where: str, what: str) -> Float[np.ndarray, " n"]:
    """Numbers, one a step; shape (n, 1) counts as (n,).

    Raises
    ------
    LogsError
        Another number of them, several a step, or no numbers.
    """
    array = _one_a_step(values, n, where, what)
    if array.dtype.kind not in "iufb":
        raise LogsError(f"{where}: expected {what} that are numbers, found {array.dtype}.")
    return array.astype(np.float64)


def read_flags(values: Any, n: int, where: str, what: str) -> Bool[np.ndarray, " n"]:
    """True or false, one a step; one for the whole episode belongs to its last step.

    Raises
    ------
    LogsError
        Another number of them, or values that are no flags.
    """
    array = to_array(values, where, what)
    if array.ndim == 0:
        flags = np.zeros(n, dtype=bool)
        flags[n - 1 :] = _flags(array[None], where, what)
        return flags
    return _flags(_one_a_step(values, n, where, what), where, what)


def _one_a_step(values: Any, n: int, where: str, what: str) -> np.ndarray:
    array = rows_of(values, where, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise LogsError(
            f"{where}: expected {what}, one a step, found an array of shape {array.shape}. Choose "
            "or sum what counts."
        )
    check_length(len(array), n, where, what)
    return _without_objects(array, where, what) if array.dtype.kind == "O" else array


def check_length(found: int, n: int, where: str, what: str) -> None:
    """Refuse another number of entries than there are steps.

    Raises
    ------
    LogsError
        It is another number.
    """
    if found != n:
        raise LogsError(
            f"{where}: expected {n:,} {what}, one for each reward, found {found:,}. The arrays may "
            "be cut off, or of different logs."
        )


def _flags(array: np.ndarray, where: str, what: str) -> np.ndarray:
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all():
        return array.astype(bool)
    odd = array[~np.isin(array, (0, 1))][0] if array.dtype.kind in "iuf" else array.dtype
    raise LogsError(f"{where}: expected {what} that are true or false, found {odd}.")
