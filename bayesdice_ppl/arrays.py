"""One code for NumPy's arrays and JAX's: the module that computes on an array, and what they lack.

A log is counted once, and every log has other shapes. JAX would compile anew for each, which costs
seconds where the arithmetic takes milliseconds. What has a closed form is therefore computed by
NumPy, with the same functions that a compiled search differentiates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def library_of(*arrays: Any) -> Any:
    """`jax.numpy` if any of the arrays is JAX's, traced or not; else `numpy`."""
    return jnp if any(isinstance(array, jax.Array) for array in arrays) else np


def added(array: Any, index: Any, more: Any) -> Any:
    """A copy of an array with more at some places, each named once at most."""
    if isinstance(array, jax.Array) or isinstance(more, jax.Array):
        return jnp.asarray(array).at[index].add(more)
    changed = np.array(array)
    changed[index] += more
    return changed


def replaced(array: Any, index: Any, value: Any) -> Any:
    """A copy of an array with other values at some places."""
    if isinstance(array, jax.Array) or isinstance(value, jax.Array):
        return jnp.asarray(array).at[index].set(value)
    changed = np.array(array)
    changed[index] = value
    return changed


def sums_by(rows: Any, group: Any, n_groups: int) -> Any:
    """Sum the rows of each group.

    Parameters
    ----------
    rows
        Shape (C,) or (C, R).
    group
        The group of each row, shape (C,).
    n_groups
        Number of groups.

    Returns
    -------
    array
        Shape (n_groups,) or (n_groups, R).
    """
    if isinstance(rows, jax.Array) or isinstance(group, jax.Array):
        return jax.ops.segment_sum(rows, group, num_segments=n_groups)
    if rows.ndim == 1:
        return np.bincount(group, rows, minlength=n_groups)
    from scipy.sparse import csr_array

    n = len(group)
    pick = csr_array((np.ones(n), (group, np.arange(n))), shape=(n_groups, n))
    return pick @ rows


def one_hot(group: Any, n_groups: int, dtype: Any) -> Any:
    """A row for each entry, with a one in the column of its group, shape (C, n_groups)."""
    if isinstance(group, jax.Array):
        return jax.nn.one_hot(group, n_groups, dtype=dtype)
    found = np.zeros((len(group), n_groups), dtype=dtype)
    found[np.arange(len(group)), group] = 1.0
    return found


def cholesky(matrix: Any) -> Any:
    """Lower Cholesky factor; not-a-number throughout if the matrix is not positive definite."""
    if isinstance(matrix, jax.Array):
        return jnp.linalg.cholesky(matrix)
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def eigh(matrix: Any) -> tuple[Any, Any]:
    """Eigenvalues, ascending, and eigenvectors; not-a-number where NumPy finds none."""
    if isinstance(matrix, jax.Array):
        values, vectors = jnp.linalg.eigh(matrix)
        return values, vectors
    try:
        values, vectors = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        return np.full(len(matrix), np.nan), np.full_like(matrix, np.nan)
    return values, vectors


def symmetric_root(matrix: Any) -> Any:
    """The positive semidefinite root B of a positive semidefinite matrix, with B B = matrix.

    There is only one, so that draws do not depend on the eigenvectors that a machine happens to
    find where a matrix is singular.
    """
    values, vectors = eigh(matrix)
    xp = library_of(values)
    return (vectors * xp.sqrt(xp.maximum(values, 0.0))) @ vectors.T


def solve_lower(factor: Any, right: Any, *, transposed: bool = False) -> Any:
    """Solve L x = right, or L' x = right, for a lower triangular L."""
    if isinstance(factor, jax.Array) or isinstance(right, jax.Array):
        from jax.scipy.linalg import solve_triangular as solve

        return solve(factor, right, lower=True, trans=int(transposed))
    from scipy.linalg import solve_triangular

    return solve_triangular(factor, right, lower=True, trans=int(transposed), check_finite=False)


def each(function: Callable[..., Any], *stacked: Any) -> Any:
    """Apply a function along the leading axis of all its arguments, and stack what it gives.

    NumPy's arrays are taken one after another, JAX's all at once.
    """
    if library_of(*jax.tree.leaves(stacked)) is jnp:
        return jax.vmap(function)(*stacked)
    return _looped(function, *stacked)


def one_by_one(function: Callable[..., Any], *stacked: Any) -> Any:
    """Apply a function as `each` does, one after another for JAX's arrays too."""
    if library_of(*jax.tree.leaves(stacked)) is jnp:
        return jax.lax.map(lambda given: function(*given), stacked)
    return _looped(function, *stacked)


def _looped(function: Callable[..., Any], *stacked: Any) -> Any:
    size = len(jax.tree.leaves(stacked)[0])
    # As JAX: what overflows or is not a number is looked for afterwards, and not warned of.
    with np.errstate(all="ignore"):
        found = [function(*jax.tree.map(lambda x: x[j], stacked)) for j in range(size)]  # noqa: B023
    return jax.tree.map(lambda *parts: np.stack(parts), *found)


def scanned(step: Callable[..., Any], carry: Any, given: Any) -> tuple[Any, Any]:
    """`jax.lax.scan`, and the same loop for NumPy's arrays."""
    if library_of(*jax.tree.leaves((carry, given))) is jnp:
        return jax.lax.scan(step, carry, given)
    found = []
    for one in given:
        carry, more = step(carry, one)
        found.append(more)
    return carry, jax.tree.map(lambda *parts: np.stack(parts), *found)


def repeated(again: Callable[..., Any], step: Callable[..., Any], state: Any) -> Any:
    """`jax.lax.while_loop`, and the same loop for NumPy's arrays."""
    if library_of(*jax.tree.leaves(state)) is jnp:
        return jax.lax.while_loop(again, step, state)
    while again(state):
        state = step(state)
    return state


def either(condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`jax.lax.cond`, and the same choice for one of NumPy's booleans."""
    if isinstance(condition, jax.Array):
        return jax.lax.cond(condition, first, second)
    return first() if condition else second()


def compiled_for_jax(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function that `jax.jit` compiles for JAX's arrays, and that NumPy's run through as it is.

    Parameters
    ----------
    function
        Computes on both.
    **options
        Those of `jax.jit`.
    """
    compiled = jax.jit(function, **options)

    @wraps(function)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        traced = library_of(*jax.tree.leaves((args, kwargs))) is jnp
        return (compiled if traced else function)(*args, **kwargs)

    return chosen
