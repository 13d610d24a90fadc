"""Candidates in ONNX, run by onnxruntime where it is installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies.asking import number_array

_PROBABILITIES = ("probabilities", "probs", "output_probability")
_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


@final
@dataclass(frozen=True, eq=False)
class OnnxFunction:
    """The function that an ONNX file holds, from observations to numbers.

    Parameters
    ----------
    session
        The `onnxruntime.InferenceSession`.
    source
        The file, for messages.
    output
        Name of the output that is taken.
    """

    session: Any
    source: Path
    output: str

    def __call__(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Numbers for each observation (batch, p): (batch, A)."""
        taken = self.session.get_inputs()[0]
        given = np.asarray(obs, dtype=_FLOATS[taken.type])
        (found,) = self.session.run([self.output], {taken.name: given})
        return number_array(found, f"{self.source}: output {self.output!r}")

    def probs(self, obs: Any) -> Float[np.ndarray, "batch A"]:
        """Probabilities of the actions, where the output holds these; shape (batch, A)."""
        return self(obs)


def read_onnx(path: str | os.PathLike[str], *, output: str | None = None) -> OnnxFunction:
    """Read a function of observations from an ONNX file.

    Its output is taken for probabilities of the actions where the object is used as a candidate.
    Where it is scores, wrap it: ``bayesdice_ppl.policies.softmax(read_onnx(path))``.

    Parameters
    ----------
    path
        The file. It takes one input, floating-point numbers of shape (batch, p).
    output
        Name of the output; the only one, or the one named ``probabilities``, if it is left out.

    Raises
    ------
    PoliciesError
        onnxruntime is not installed, the file cannot be read, or which output is meant is not
        clear.
    """
    source = Path(path)
    try:
        import onnxruntime
    except ImportError as cause:
        raise PoliciesError(
            f"{source}: expected the package onnxruntime, which runs ONNX files, found none. "
            "Install it: pip install 'bayesdice-ppl[onnx]'."
        ) from cause
    if not source.is_file():
        raise PoliciesError(f"{source}: there is no such file.")
    try:
        session = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    except Exception as cause:
        # onnxruntime has errors of its own for each way in which a file is damaged.
        raise PoliciesError(
            f"{source}: expected a model in ONNX, found another or a damaged file "
            f"({str(cause).splitlines()[0]})."
        ) from cause
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _FLOATS:
        told = ", ".join(f"{each.name} of {each.type}" for each in inputs)
        raise PoliciesError(
            f"{source}: expected one input of floating-point numbers, (batch, p), found {told}."
        )
    names = [each.name for each in session.get_outputs()]
    if output is None:
        known = [name for name in names if name.lower() in _PROBABILITIES]
        output = names[0] if len(names) == 1 else (known[0] if len(known) == 1 else None)
    if output not in names:
        raise PoliciesError(
            f"{source}: expected output= to name one of its outputs, {', '.join(names)}, found "
            f"{output!r}."
        )
    return OnnxFunction(session, source, str(output))
