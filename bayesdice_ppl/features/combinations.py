"""Features made of other features: their products, or all of them side by side."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.features.maps import (
    FeatureChoice,
    FeatureMap,
    GaussianMeanMap,
    Points,
    PriorFeatures,
    Space,
    gaussian_mean,
    sees_action,
)


@final
class CombinedMap(NamedTuple):
    """Several maps as one.

    Attributes
    ----------
    maps
        In order.
    multiply
        True: all products of one feature of each; False: all of them side by side.
    """

    maps: tuple[FeatureMap, ...]
    multiply: bool

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points."""
        return self._join([each(points) for each in self.maps])

    @property
    def sees(self) -> frozenset[str]:
        """Which parts any of them looks at; all parts where one does not say."""
        found: frozenset[str] = frozenset()
        for each in self.maps:
            found |= each.sees if isinstance(each, GaussianMeanMap) else {"state", "action"}
        return found

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d"] | None:
        """Mean features, None where one of the maps cannot say.

        The mean of a product is the product of the means where one factor alone looks at the
        action, since the state is given. Of two factors that do, no mean is known.
        """
        if self.multiply and sum(sees_action(each) for each in self.maps) > 1:
            return None
        found = []
        for each in self.maps:
            one = gaussian_mean(each, states, mean, sd)
            if one is None:
                return None
            found.append(one)
        return self._join(found)

    def _join(self, found: list[Float[np.ndarray, "b _"]]) -> Float[np.ndarray, "b d"]:
        """Products, or all side by side."""
        if not self.multiply:
            return np.concatenate(found, axis=1)
        result = found[0]
        for factor in found[1:]:
            width = result.shape[1] * factor.shape[1]
            result = (result[:, :, None] * factor[:, None, :]).reshape(len(result), width)
        return result


@final
class Combined(NamedTuple):
    """A choice made of other choices; make one with `product` or `concatenate`."""

    choices: tuple[FeatureChoice, ...]
    multiply: bool

    @property
    def sees(self) -> frozenset[str]:
        """Which parts any of them looks at."""
        return frozenset().union(*(choice.sees for choice in self.choices))

    @property
    def is_prior(self) -> bool:
        """Whether the size of any of them is a prior of the ratio."""
        return any(isinstance(each, PriorFeatures) and each.is_prior for each in self.choices)

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> CombinedMap:
        """Build each, with a key of its own."""
        keys: list[PRNGKeyArray | None] = [None] * len(self.choices)
        if rng_key is not None:
            import jax

            keys = list(jax.random.split(rng_key, len(self.choices)))
        built = (choice.build(space, key) for choice, key in zip(self.choices, keys, strict=True))
        return CombinedMap(tuple(built), self.multiply)

    def __str__(self) -> str:
        name = "product" if self.multiply else "concatenate"
        return f"{name}({', '.join(str(choice) for choice in self.choices)})"


def product(*choices: FeatureChoice) -> Combined:
    """All products of one feature of each, e.g. of a state's with an action's.

    Parameters
    ----------
    *choices
        At least two.

    Raises
    ------
    SettingsError
        There are fewer, or one is not a choice of features.
    """
    return _combined(choices, "product", multiply=True)


def concatenate(*choices: FeatureChoice) -> Combined:
    """The features of all, side by side.

    Parameters
    ----------
    *choices
        At least two.

    Raises
    ------
    SettingsError
        There are fewer, or one is not a choice of features.
    """
    return _combined(choices, "concatenate", multiply=False)


def _combined(choices: tuple[FeatureChoice, ...], name: str, *, multiply: bool) -> Combined:
    if len(choices) < 2:
        raise SettingsError(f"{name}: expected at least two feature maps, found {len(choices)}.")
    for choice in choices:
        if not isinstance(choice, FeatureChoice):
            raise SettingsError(
                f"{name}: expected feature maps such as fourier(200), found {choice!r}."
            )
    return Combined(tuple(choices), multiply)
