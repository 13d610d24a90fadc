"""Checkpoints of a training: its arrays in one file, without pickle, replaced as a whole."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.outputs import staged_file

Run = TypeVar("Run")
_FINGERPRINT = "fingerprint"


@final
class Checkpoint:
    """A file of the state of a training.

    Parameters
    ----------
    path
        Where; None: nothing is saved or loaded.
    settings
        What the training depends on, with a text that says all of it.
    problem
        A tree of arrays that it depends on.
    """

    def __init__(self, path: str | None, settings: Any, problem: Any):
        self._path = None if path is None else Path(path)
        if self._path is None:
            return
        digest = hashlib.sha256(repr(settings).encode())
        for leaf in jax.tree.leaves(problem):
            digest.update(np.ascontiguousarray(leaf).tobytes())
        self._fingerprint = np.frombuffer(digest.digest(), dtype=np.uint8)

    def load(self, start: Run) -> Run:
        """The state in the file, or the one at the start if there is no file.

        Parameters
        ----------
        start
            A tree with the shapes of the state.

        Raises
        ------
        SettingsError
            The file is not of this training.
        """
        if self._path is None or not self._path.exists():
            return start
        leaves, shape = jax.tree.flatten(start)
        try:
            with np.load(self._path, allow_pickle=False) as file:
                found = [file[str(i)] for i in range(len(leaves))]
                same = np.array_equal(file[_FINGERPRINT], self._fingerprint)
        except (KeyError, ValueError, OSError) as cause:
            raise SettingsError(
                f"minmax.checkpoint: {self._path} is not a checkpoint of this training. Name "
                "another file."
            ) from cause
        if not same:
            raise SettingsError(
                f"minmax.checkpoint: {self._path} is of another log, key or settings. Name another "
                "file."
            )
        return jax.tree.unflatten(shape, map(_as_leaf, found, leaves))

    def save(self, state: Any) -> None:
        """Write the state.

        Raises
        ------
        OutputError
            The file cannot be written.
        """
        if self._path is None:
            return
        arrays: Any = {str(i): _as_array(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        arrays[_FINGERPRINT] = self._fingerprint
        with staged_file(self._path) as scratch, scratch.open("wb") as file:
            np.savez(file, **arrays)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _as_array(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _as_leaf(found: np.ndarray, like: Any) -> Any:
    if _is_key(like):
        return jax.device_put(jax.random.wrap_key_data(jnp.asarray(found)), like.sharding)
    if isinstance(like, jax.Array):
        return jax.device_put(found, like.sharding)
    return found if isinstance(like, np.ndarray) else found.item()
