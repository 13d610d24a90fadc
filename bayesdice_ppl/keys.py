"""One JAX key for everything that is random.

It is checked once, and also seeds the generators of NumPy and Gymnasium.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl.errors import SettingsError

_MANY_NUMBERS = 2**20
"""More normal numbers than these are drawn as they are asked for, to save memory."""


_QUICK = {"xla_backend_optimization_level": 0}
"""Optimizing takes longer than these run."""


def check_key(rng_key: Any) -> None:
    """Refuse anything but one key of `jax.random`, typed or raw.

    Raises
    ------
    SettingsError
        It is something else.
    """
    if isinstance(rng_key, jax.Array):
        typed = jax.dtypes.issubdtype(rng_key.dtype, jax.dtypes.prng_key) and rng_key.ndim == 0
        # Raw keys have two or four numbers, depending on JAX's generator.
        raw = rng_key.dtype == np.uint32 and rng_key.shape == _raw_shape()
        if typed or raw:
            return
    raise SettingsError(
        f"rng_key: expected one key such as jax.random.key(0), found {type(rng_key).__name__}."
    )


def _raw_shape() -> tuple[int, ...]:
    return tuple(jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape)


def seed_sequence(rng_key: jax.Array) -> np.random.SeedSequence:
    """NumPy's root of seeds, from a JAX key."""
    return np.random.SeedSequence(np.asarray(jax.random.key_data(rng_key)).tolist())


@partial(jax.jit, compiler_options=_QUICK)
def split_key(rng_key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """Two keys from one."""
    first, second = jax.random.split(rng_key)
    return first, second


def normal_numbers(
    rng_key: PRNGKeyArray, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Float[np.ndarray, "..."]:
    """Standard normal numbers, those of `jax.random.normal`, from few compiled functions.

    Parameters
    ----------
    rng_key
        The key.
    shape, dtype
        Of the numbers.
    """
    return _numbers(rng_key, shape, dtype, normal=True)


def uniform_numbers(rng_key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Numbers between 0 and 1, those of `jax.random.uniform` in float32; see `normal_numbers`."""
    return _numbers(rng_key, shape, np.dtype(np.float32), normal=False)


def _numbers(
    rng_key: PRNGKeyArray, shape: tuple[int, ...], dtype: np.dtype[Any], *, normal: bool
) -> Float[np.ndarray, "..."]:
    size = math.prod(shape)
    # JAX makes each number from the key and its place alone, so that more of them start alike.
    enough = size if size > _MANY_NUMBERS else 1 << (size - 1).bit_length()
    return np.asarray(_compiled_numbers(rng_key, enough, dtype, normal))[:size].reshape(shape)


@partial(
    jax.jit,
    static_argnames=("size", "dtype", "normal"),
    compiler_options=_QUICK,
)
def _compiled_numbers(
    rng_key: PRNGKeyArray, size: int, dtype: np.dtype[Any], normal: bool
) -> Float[Array, " size"]:
    draw = jax.random.normal if normal else jax.random.uniform
    return draw(rng_key, (size,), dtype)
