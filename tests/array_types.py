"""A checker for jaxtyping's import hook: arrays are held against their annotated shapes and types.

Only annotations of arrays are checked, by beartype. mypy sees all others, and many tests hand over
something of a wrong type on purpose, to read what the library says of it.
"""

from typing import get_args

from beartype import beartype
from jaxtyping import AbstractArray


def check_arrays(function):
    """Give the function that jaxtyping calls to check arguments and result of another."""
    hints = function.__annotations__
    function.__annotations__ = {name: hint for name, hint in hints.items() if has_array(hint)}
    return beartype(function) if function.__annotations__ else function


def has_array(hint):
    """Whether an annotation is of an array, or of something that holds arrays."""
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(has_array(each) for each in get_args(hint))
