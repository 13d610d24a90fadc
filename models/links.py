"""Links between the latent numbers and the ratio: the identity, or one that keeps it positive.

To add a link, write it as a `Link` and put it into `LINKS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

from jaxtyping import Float

from bayesdice_ppl.arrays import library_of

_SOFTPLUS_OF_ONE = math.log(math.e - 1.0)
"""Where the softplus is 1."""


@final
class Link(NamedTuple):
    """A link; it maps 1 to 1 (hashable).

    Attributes
    ----------
    name
        What it is called.
    ratio
        Function from latent numbers to the ratio.
    weight
        Its inverse, from a positive ratio.
    slope
        Derivative of the inverse at a positive ratio.
    linear
        Whether it is the identity.
    estimates
        Whether on features the first estimate is a mode behind the link. Else it is linear, and
        tells by its negative mass where a candidate acts outside of what was logged.
    """

    name: str
    ratio: Callable[[Float[Any, "*b P"]], Float[Any, "*b P"]]
    weight: Callable[[Float[Any, "*b P"]], Float[Any, "*b P"]]
    slope: Callable[[Float[Any, "*b P"]], Float[Any, "*b P"]]
    linear: bool = False
    estimates: bool = False

    def __repr__(self) -> str:
        return self.name


def _same(x: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    return x


def _one(x: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    return library_of(x).ones_like(x)


def _softplus(weight: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    xp = library_of(weight)
    return xp.logaddexp(weight - 1.0 + _SOFTPLUS_OF_ONE, 0.0)


def _inverse_softplus(ratio: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    # log(exp(r) - 1), without overflow.
    xp = library_of(ratio)
    return ratio + xp.log(-xp.expm1(-ratio)) + 1.0 - _SOFTPLUS_OF_ONE


def _inverse_slope(ratio: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    return 1.0 / -library_of(ratio).expm1(-ratio)


_LOG_RANGE = (-30.0, 20.0)


def _exp(weight: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    # Past these a factor is as good as zero, or larger than any log can support. Where the factor
    # stands beside an action ratio of a ten-thousandth, right ones are large: exp(10) and more.
    xp = library_of(weight)
    return xp.exp(xp.clip(weight - 1.0, *_LOG_RANGE))


def _log(ratio: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    return library_of(ratio).log(ratio) + 1.0


def _inverse(ratio: Float[Any, "*b P"]) -> Float[Any, "*b P"]:
    return 1.0 / ratio


IDENTITY = Link("identity", _same, _same, _one, linear=True)
"""The latent numbers are the ratio."""
SOFTPLUS = Link("softplus", _softplus, _inverse_softplus, _inverse_slope)
"""log(1 + exp(w - 1 + log(e - 1))): no ratio is negative."""
EXP = Link("exp", _exp, _log, _inverse, estimates=True)
"""exp(w - 1): the logarithm of the ratio is linear in the latent numbers."""
LINKS = {link.name: link for link in (IDENTITY, SOFTPLUS, EXP)}
"""Every link by name."""
