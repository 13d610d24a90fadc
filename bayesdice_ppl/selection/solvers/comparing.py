"""Compare single prefixes by the form of their expected loss, equal up to rounding or not."""

import numpy as np

from bayesdice_ppl.losses.structure import ROUNDING, Assignment, Pairwise, Sorting, evaluate

Linear = Sorting | Assignment | Pairwise


def loss_of(structure: Linear, prefix: tuple[int, ...]) -> float:
    """Give the expected loss of one prefix."""
    return float(evaluate(structure, np.array([prefix]))[0])


def rounding_of(structure: Linear, loss: float) -> float:
    """Tell how far apart losses near this one may be that differ by rounding alone."""
    return ROUNDING * max(abs(structure.offset), abs(loss))


def first_of_lowest(structure: Linear, prefixes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Give the prefix of lowest loss: of equals the longest, then the lexicographically first.

    Parameters
    ----------
    structure : Structure
        Form of the expected loss.
    prefixes : list of tuple of int
        What to choose from.

    Returns
    -------
    tuple of int or None
        None if there is none.
    """
    if not prefixes:
        return None
    losses = [loss_of(structure, prefix) for prefix in prefixes]
    near = min(losses) + rounding_of(structure, max(losses))
    tied = [prefix for prefix, loss in zip(prefixes, losses, strict=True) if loss <= near]
    return min(tied, key=lambda prefix: (-len(prefix), prefix))
