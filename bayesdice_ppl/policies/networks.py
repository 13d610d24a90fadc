"""Candidates from files of arrays: small networks in ``.npz``, Gaussian or softmax.

A file holds ``weight_0`` (p, h), ``bias_0`` (h,), ``weight_1``, ``bias_1``, ... and, if there is
more than one layer, ``activation``. With ``sd`` or ``log_sd`` the last layer is the mean of a
Gaussian over vectors; else it is the scores of a softmax, and ``actions`` may name its columns.
``center`` and ``scale`` normalize observations first. Nothing in it is run: no pickles are read.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.logs.labels import label_array
from bayesdice_ppl.policies.gaussian import GaussianPolicy
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.labeled import LabeledPolicy
from bayesdice_ppl.policies.scored import softmax

MOST_BYTES = 2**30
"""Size of the arrays of a file, past which it is no small network."""


def _library_of(x: Any) -> Any:
    """NumPy for its own arrays, else JAX, which candidates in NumPy do not need."""
    if isinstance(x, np.ndarray):
        return np
    import jax.numpy as jnp

    return jnp


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": lambda x: _library_of(x).tanh(x),
    "relu": lambda x: _library_of(x).maximum(x, 0.0),
    "elu": lambda x: _library_of(x).where(
        x > 0.0, x, _library_of(x).expm1(_library_of(x).minimum(x, 0.0))
    ),
    "sigmoid": lambda x: 1.0 / (1.0 + _library_of(x).exp(-x)),
    "silu": lambda x: x / (1.0 + _library_of(x).exp(-x)),
}
_KNOWN = ("activation", "sd", "log_sd", "actions", "temperature", "center", "scale")


_DAMAGED = (
    *(OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error),
    # Kinds of compression and encryption that nobody writes; a shape that no memory holds.
    *(NotImplementedError, RuntimeError, MemoryError),
)
"""What reading a damaged file raises."""


def read_network(path: str | os.PathLike[str]) -> Policy | ContinuousPolicy:
    """Read a policy from a ``.npz`` file.

    Parameters
    ----------
    path
        The file; the module's docstring has its arrays.

    Raises
    ------
    PoliciesError
        It cannot be read, an array is missing, unknown or of another shape, or it is too large.
    """
    source = Path(path)
    arrays = _arrays(source)
    try:
        return network_policy(arrays)
    except PoliciesError as error:
        raise PoliciesError(f"{source}: {error}") from error


def network_policy(arrays: Mapping[str, Any]) -> Policy | ContinuousPolicy:
    """Make a policy of the arrays of a network; see `read_network`."""
    layers = _layers(arrays)
    activation = str(_single(arrays, "activation")) if "activation" in arrays else ""
    if len(layers) > 1 and activation not in ACTIVATIONS:
        raise PoliciesError(
            f"activation: expected one of {', '.join(ACTIVATIONS)}, found {activation!r}."
        )
    width = layers[0][0].shape[0]
    center = _vector(arrays, "center", width, 0.0)
    scale = _vector(arrays, "scale", width, 1.0)
    if not (scale > 0.0).all():
        raise PoliciesError("scale: expected numbers above 0, found others.")

    def output(obs: Any) -> Any:
        x = (obs - center) / scale
        if x.shape[-1] != width:
            raise PoliciesError(f"expected observations of {width} numbers, found {x.shape[-1]}.")
        for place, (weight, bias) in enumerate(layers):
            x = x @ weight + bias
            if place + 1 < len(layers):
                x = ACTIVATIONS[activation](x)
        return x

    spread = {"sd", "log_sd"} & set(arrays)
    if len(spread) == 2:
        raise PoliciesError("sd: expected it or log_sd, found both. Keep one.")
    if spread:
        if "actions" in arrays or "temperature" in arrays:
            raise PoliciesError(
                "sd: expected a Gaussian over vectors, found actions or a temperature beside it, "
                "which belong to a softmax over labels. Take one of them out."
            )
        given = _numbers(arrays, spread.pop())
        n_actions = layers[-1][1].shape[0]
        sd = given if "sd" in arrays else np.exp(given)
        if sd.shape not in ((), (n_actions,)):
            raise PoliciesError(f"sd: expected one number or {n_actions}, found shape {sd.shape}.")
        return GaussianPolicy(output, sd)
    temperature = 1.0
    if "temperature" in arrays:
        _numbers(arrays, "temperature")
        temperature = float(_single(arrays, "temperature"))
    policy = softmax(output, temperature)
    if "actions" not in arrays:
        return policy
    labels = label_array(np.asarray(arrays["actions"]).tolist(), "actions", PoliciesError)
    if len(labels) != layers[-1][1].shape[0]:
        raise PoliciesError(
            f"actions: expected {layers[-1][1].shape[0]}, as many as the last layer gives, found "
            f"{len(labels)}."
        )
    return LabeledPolicy(policy, labels)


def _arrays(source: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(source) as archive:
            size = sum(each.file_size for each in archive.infolist())
        if size > MOST_BYTES:
            raise PoliciesError(
                f"{source}: expected arrays of at most {MOST_BYTES:,} bytes, found {size:,}. A "
                "network of that size runs in its own library: give a function of states."
            )
        with np.load(source, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise PoliciesError(f"{source}: there is no such file.") from None
    except _DAMAGED as cause:
        raise PoliciesError(
            f"{source}: expected arrays of numbers in .npz, as np.savez writes them, found another "
            f"or a damaged file ({cause}). Objects and pickles are not read."
        ) from cause


def _layers(arrays: Mapping[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    n_layers = sum(name.startswith("weight_") for name in arrays)
    known = {f"{part}_{k}" for part in ("weight", "bias") for k in range(n_layers)} | {*_KNOWN}
    unknown = sorted(set(arrays) - known)
    if unknown or not n_layers:
        found = f"found {unknown[0]!r}" if unknown else "found no weight_0"
        raise PoliciesError(
            f"expected the arrays weight_0, bias_0, weight_1, ... and of {', '.join(_KNOWN)} those "
            f"that are needed, {found}."
        )
    layers: list[tuple[np.ndarray, np.ndarray]] = []
    for k in range(n_layers):
        weight = _numbers(arrays, f"weight_{k}")
        bias = _numbers(arrays, f"bias_{k}")
        before = layers[-1][1].shape[0] if layers else (weight.shape[0] if weight.ndim else 0)
        fits = weight.ndim == 2 and weight.shape[0] == before and bias.shape == weight.shape[1:]
        if not fits or not weight.size:
            raise PoliciesError(
                f"weight_{k}: expected shape ({before or 'p'}, h) and bias_{k} of shape (h,), "
                f"found {weight.shape} and {bias.shape}. A layer is x @ weight + bias."
            )
        layers.append((weight, bias))
    return layers


def _single(arrays: Mapping[str, Any], name: str) -> Any:
    found = np.asarray(arrays[name])
    if found.size != 1:
        raise PoliciesError(f"{name}: expected one, found an array of shape {found.shape}.")
    return found.item()


def _numbers(arrays: Mapping[str, Any], name: str) -> np.ndarray:
    if name not in arrays:
        raise PoliciesError(f"{name}: expected it beside the other layers, found none.")
    found = np.asarray(arrays[name])
    if found.dtype.kind not in "iuf" or not np.isfinite(found).all():
        raise PoliciesError(f"{name}: expected finite numbers, found {found.dtype}.")
    return found.astype(np.float64)


def _vector(
    arrays: Mapping[str, Any], name: str, width: int, otherwise: float
) -> Float[np.ndarray, " p"]:
    if name not in arrays:
        return np.full(width, otherwise)
    found = _numbers(arrays, name)
    if found.shape != (width,):
        raise PoliciesError(f"{name}: expected {width} numbers, found shape {found.shape}.")
    return found
