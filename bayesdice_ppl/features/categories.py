"""One-hot features of labels, alone or as a factor in a product."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import Points, Space, check_part, parts_of


@final
class OneHotMap(NamedTuple):
    """A feature for each label, or for each pair of labels.

    Attributes
    ----------
    of
        Which part is looked at.
    sizes
        Number of labels of each part that is looked at.
    """

    of: str
    sizes: tuple[int, ...]

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points."""
        code = np.zeros(len(points.state), dtype=np.int64)
        for part, size in zip(parts_of(self.of), self.sizes, strict=True):
            code = code * size + getattr(points, part)
        result = np.zeros((len(code), int(np.prod(self.sizes))))
        result[np.arange(len(code)), code] = 1.0
        return result

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d"] | None:
        """Features of the state, which no action moves; None if labels of actions are looked at."""
        return None if "action" in self.sees else self(Points(states, mean))


@final
class OneHot(NamedTuple):
    """A choice of one-hot features; make one with `one_hot`."""

    of: str = "both"

    @property
    def sees(self) -> frozenset[str]:
        """Which parts it looks at."""
        return frozenset(parts_of(self.of))

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> OneHotMap:
        """Count the labels."""
        sizes = []
        for part in parts_of(self.of):
            labels = space.labels(part)
            if labels is None:
                raise SettingsError(
                    f"one_hot: expected {part}s that are labels, found vectors. Use fourier or "
                    "polynomial for them."
                )
            sizes.append(len(labels))
        return OneHotMap(self.of, tuple(sizes))

    def __str__(self) -> str:
        return "one_hot()" if self.of == "both" else f"one_hot(of={self.of!r})"


def one_hot(*, of: str = "both") -> OneHot:
    """A feature for each label; of both, for each state-action pair that was logged.

    Parameters
    ----------
    of
        ``"both"`` (default), the tabular form, in which policies are renormalized over the actions
        that were logged in each state; ``"state"`` or ``"action"`` alone are meant for `product`.

    Raises
    ------
    SettingsError
        The part is unknown.
    """
    return OneHot(check_part(of, "one_hot"))
