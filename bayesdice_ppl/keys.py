"""One JAX key for everything that is random.

It is checked once, and also seeds the generators of NumPy and Gymnasium.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from bayesdice_ppl.errors import SettingsError


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
