"""Ask a policy for its numbers, whatever it computes them with.

Arrays of PyTorch, TensorFlow and JAX become NumPy's. An error of the policy's own becomes one that
names the policy, what it was asked for, and the first state for which it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bayesdice_ppl.errors import PoliciesError

_MOST_TRIED = 1_000
"""States that are asked for one by one to find the one that fails."""
_MOST_NUMBERS = 6
"""Numbers of a vector that a message shows."""


def plain_array(values: Any) -> Any:
    """An array of another library as NumPy's; anything else as it is.

    A tensor that still knows its gradient is detached, and one on a device is brought back.
    """
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, list | tuple) and any(hasattr(each, "detach") for each in values):
        return [plain_array(each) for each in values]
    tensor = False
    for step in ("detach", "cpu", "numpy"):
        # Only tensors have the first two; dataframes and arrays of JAX have none of them.
        if (tensor or step != "cpu") and callable(getattr(values, step, None)):
            values, tensor = getattr(values, step)(), True
    return values


def number_array(values: Any, what: str) -> np.ndarray:
    """Copy numbers of any library into a float64 array.

    Raises
    ------
    PoliciesError
        They are not numbers, or rows differ in length.
    """
    try:
        return np.array(plain_array(values), dtype=np.float64)
    except Exception as cause:
        # Each library has its own errors for one reason: what it holds cannot be such an array.
        raise PoliciesError(
            f"{what}: expected an array of numbers whose rows have one length ({cause})."
        ) from cause


def ask(name: str, what: str, call: Callable[[np.ndarray], Any], states: np.ndarray) -> np.ndarray:
    """Call a policy, and turn what it gives into float64.

    Parameters
    ----------
    name
        The candidate.
    what
        What it is asked for, such as ``"probs"``.
    call
        From places among the states to what the policy says of these.
    states
        Labels or observations, (batch,) or (batch, p), to name the one that fails.

    Returns
    -------
    array
        What the policy gave, of whatever shape.

    Raises
    ------
    PoliciesError
        The policy raised an error, or gave no numbers.
    """
    every = np.arange(len(states))
    try:
        given = call(every)
    except Exception as cause:
        where = _first_failing(call, states)
        reason = (str(cause).strip() or "no message").splitlines()[0]
        raise PoliciesError(
            f"policy {name!r}: {what} failed {where}: {type(cause).__name__}: {reason}. The policy "
            "must answer for every state that the log visits. Correct it, or its input: it is "
            "given an array of the log's states."
        ) from cause
    return number_array(given, f"policy {name!r}: {what}")


def _first_failing(call: Callable[[np.ndarray], Any], states: np.ndarray) -> str:
    """Where a policy fails that is asked for one state at a time."""
    if len(states) > 1:
        for place in range(min(len(states), _MOST_TRIED)):
            try:
                call(np.array([place]))
            except Exception:
                return f"in state {_shown(states[place])}"
        return f"for {len(states):,} states at once, though for none of the first alone"
    return f"in state {_shown(states[0])}" if len(states) else "for no state at all"


def _shown(state: Any) -> str:
    if isinstance(state, np.ndarray) and state.ndim:
        numbers = ", ".join(f"{number:g}" for number in state.ravel()[:_MOST_NUMBERS])
        return f"[{numbers}{', ...' if state.size > _MOST_NUMBERS else ''}]"
    return repr(state.item() if isinstance(state, np.generic) else state)
