"""What a feature map is: a function of state-action points that is built once for each log.

A choice, such as `fourier(200)`, says what to build. Its `build` takes scales from the log's
points, draws random frequencies, and returns the map. Points are vectors where the log holds
vectors, and codes of labels elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, Shaped

from bayesdice_ppl.checks import one_of
from bayesdice_ppl.errors import SettingsError

PARTS = ("state", "action", "both")


class Points(NamedTuple):
    """State-action points.

    Attributes
    ----------
    state
        Vectors, shape (b, p), or codes of labels, shape (b,).
    action
        Vectors, shape (b, q), or codes of labels, shape (b,).
    """

    state: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"]
    action: Float[np.ndarray, "b q"] | Int[np.ndarray, " b"]


class Space(NamedTuple):
    """What a log holds, from which maps take their scales and sizes.

    Attributes
    ----------
    points
        The logged points, shape (P, ...).
    state_labels, action_labels
        Labels by code, shapes (S,) and (A,), or None where there are vectors.
    """

    points: Points
    state_labels: Shaped[np.ndarray, " S"] | None
    action_labels: Shaped[np.ndarray, " A"] | None

    def labels(self, part: str) -> Shaped[np.ndarray, " L"] | None:
        """Labels of ``"state"`` or ``"action"``, None for vectors."""
        return self.state_labels if part == "state" else self.action_labels


class FeatureMap(Protocol):
    """A map that is ready to use."""

    def __call__(self, points: Points) -> Float[np.ndarray, "b d"]:
        """Features of points, shape (b, d), float64."""
        ...


@runtime_checkable
class GaussianMeanMap(FeatureMap, Protocol):
    """A map whose mean over a normal action may be known exactly."""

    @property
    def sees(self) -> frozenset[str]:
        """Which of ``"state"`` and ``"action"`` it looks at."""
        ...

    def under_gaussian(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
    ) -> Float[np.ndarray, "b d"] | None:
        """E phi(s, a) over actions of independent normal numbers.

        Parameters
        ----------
        states
            Vectors, shape (b, p), or codes of labels, shape (b,).
        mean
            Mean action in each, shape (b, q).
        sd
            Standard deviations, shape (q,) or (b, q); 0 is a number that is certain.

        Returns
        -------
        array or None
            Shape (b, d), float64; None if no closed form is known, which depends on the map alone.
        """
        ...


@runtime_checkable
class FeatureChoice(Protocol):
    """A choice of features; its text (`str`) is stored with the belief."""

    @property
    def sees(self) -> frozenset[str]:
        """Which of ``"state"`` and ``"action"`` it looks at."""
        ...

    def build(self, space: Space, rng_key: PRNGKeyArray | None) -> FeatureMap:
        """Fix what depends on the log; the key is needed by random features only."""
        ...


@runtime_checkable
class PriorFeatures(Protocol):
    """A choice of features whose size is a prior of the ratio, as a Gaussian process's is."""

    @property
    def is_prior(self) -> bool:
        """True: the features keep their size. False: they are whitened, as all others are."""
        ...


def parts_of(of: str) -> tuple[str, ...]:
    """The parts that a choice looks at."""
    return ("state", "action") if of == "both" else (of,)


def check_part(of: Any, name: str) -> str:
    """Refuse what is not ``"state"``, ``"action"`` or ``"both"``.

    Raises
    ------
    SettingsError
        It is something else.
    """
    return one_of(f"{name}: of", of, PARTS)


def numbers(points: Points, of: str, name: str) -> Float[np.ndarray, "b p"]:
    """The vectors of the parts, side by side.

    Raises
    ------
    SettingsError
        A part holds labels, which are not numbers even where they are integers.
    """
    found = []
    for part in parts_of(of):
        values = getattr(points, part)
        if values.ndim != 2:
            raise SettingsError(
                f"{name}: expected {part}s that are vectors, found labels. Use "
                f"product({name}(..., of={'action' if part == 'state' else 'state'!r}), "
                f"one_hot(of={part!r})), or give {part}s as vectors."
            )
        found.append(values)
    return np.concatenate(found, axis=1)


def gaussian_mean(
    feature_map: FeatureMap,
    states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
    mean: Float[np.ndarray, "b q"],
    sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
) -> Float[np.ndarray, "b d"] | None:
    """Mean of any map over normal actions, None unless it is known exactly.

    Parameters
    ----------
    feature_map
        The map.
    states, mean, sd
        As for `GaussianMeanMap.under_gaussian`.
    """
    if not isinstance(feature_map, GaussianMeanMap):
        return None
    return feature_map.under_gaussian(states, mean, sd)


def sees_action(feature_map: FeatureMap) -> bool:
    """Whether a map may look at the action; one that does not say may."""
    return not isinstance(feature_map, GaussianMeanMap) or "action" in feature_map.sees


def _check_size(size: Float[np.ndarray, " d"], what: str) -> None:
    if not np.isfinite(size).all():
        place = int(np.flatnonzero(~np.isfinite(size))[0])
        raise SettingsError(
            f"features: expected {what}s that double precision can hold, found {what} {place} "
            "(counted from 0) too large. Give it in other units."
        )


class Scale(NamedTuple):
    """Centers and scales of the logged numbers, each of shape (p,)."""

    center: Float[np.ndarray, " p"]
    sd: Float[np.ndarray, " p"]

    def __call__(self, values: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b p"]:
        """Standardize: zero mean and unit standard deviation over the log."""
        return (values - self.center) / self.sd

    def normal(
        self,
        states: Float[np.ndarray, "b p"] | Int[np.ndarray, " b"],
        mean: Float[np.ndarray, "b q"],
        sd: Float[np.ndarray, "#b q"] | Float[np.ndarray, " q"],
        of: str,
        name: str,
    ) -> tuple[Float[np.ndarray, "b k"], Float[np.ndarray, "#b k"]]:
        """Mean and standard deviation of the standardized numbers of the parts.

        Parameters
        ----------
        states, mean, sd
            As for `GaussianMeanMap.under_gaussian`.
        of, name
            As for `numbers`.

        Returns
        -------
        (array, array)
            Shapes (b, k), and (1, k) or (b, k); a state's numbers have no deviation.
        """
        center = self(numbers(Points(states, mean), of, name))
        spread = np.zeros((len(np.atleast_2d(sd)), center.shape[1]))
        if of != "state":
            # The action's numbers are the last.
            spread[:, center.shape[1] - mean.shape[1] :] = sd
        return center, spread / self.sd


def unit_size(values: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " d"]:
    """Root mean square of each feature over the log, 1 where it is always zero.

    Features on very different scales would have very different priors, and small ones would look
    like rounding errors.
    """
    with np.errstate(over="ignore"):
        size = np.sqrt(np.mean(values**2, axis=0))
    _check_size(size, "feature")
    return np.where(size > 0.0, size, 1.0)


def scale_of(values: Float[np.ndarray, "b p"]) -> Scale:
    """Scale of the logged numbers; a number that never varies keeps its own units."""
    with np.errstate(over="ignore", invalid="ignore"):
        sd = values.std(axis=0)
    _check_size(sd, "number")
    # Of equal numbers rounding may leave a standard deviation.
    varies = (sd > 0.0) & (np.ptp(values, axis=0) > 0.0)
    return Scale(values.mean(axis=0), np.where(varies, sd, 1.0))
