"""Read what selection and plots need from any belief, and check it.

A belief of another program will do: a DataTree with ``posterior/value`` and a dim ``policy``. What
the logs support may be missing. It is then reported as missing, never filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief.schema import SUPPORT, BeliefView, SupportWarning, Variable
from bayesdice_ppl.checks import is_number
from bayesdice_ppl.errors import BeliefError

if TYPE_CHECKING:
    from xarray import DataArray, DataTree

_OTHER = "other_policy"
_LARGEST = 1e150
"""Values beyond have no variance in double precision."""
_SAMPLE_DIMS = ("chain", "draw", "policy")


@final
class ValueDraws(NamedTuple):
    """Draws of the values and the names of their columns.

    Attributes
    ----------
    names
        The N candidates.
    values
        Their values, reward per step, finite, float64, shape (chains, draws, N).
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "chain draw N"]


type Which = str | Mapping[str, float]
"""A variable of ``posterior``, or a sum of several with a weight each."""


def read_values(belief: DataTree, statistic: Which = "value") -> ValueDraws:
    """Take the draws of the policy values out of a belief.

    Parameters
    ----------
    belief
        With ``posterior/value``, dims policy, draw and, unless there is only one, chain; the
        coordinate ``policy`` names the candidates.
    statistic
        The variable of ``posterior`` that is read; or name -> weight, whose weighted sum is taken
        draw by draw: ``{"quality": 1, "cost": -0.5}``.

    Returns
    -------
    ValueDraws
        Names, and values of shape (chains, draws, N) in reward per step.

    Raises
    ------
    BeliefError
        Any of this is missing, a name is no text or not unique, there are fewer than two draws, or
        a value is NaN or infinite.
    """
    if isinstance(statistic, Mapping):
        return _weighted(belief, statistic)
    statistic = str(statistic)
    where = f"posterior/{statistic}"
    value = _variable(belief, "posterior", statistic)
    if value is None and statistic != "value":
        given = belief["posterior"].data_vars.items()
        known = ", ".join(str(name) for name, each in given if set(each.dims) <= {*_SAMPLE_DIMS})
        raise BeliefError(
            f"statistic: expected one of {known}, found {statistic!r}: the belief has no {where}. "
            "Fit it with a list statistic= that holds it, or read the log with a list reward= that "
            "does."
        )
    if value is None:
        raise BeliefError(
            "belief: expected a DataTree with posterior/value (chain, draw, policy), found no such "
            "variable. Use a belief from bayesdice_ppl.fit, or build one with these dims."
        )
    if not {"draw", "policy"} <= set(value.dims) <= {*_SAMPLE_DIMS}:
        raise BeliefError(
            f"{where}: expected dims chain, draw, policy (chain may be left out), found "
            f"{', '.join(map(str, value.dims))}."
        )
    if "policy" not in value.coords:
        raise BeliefError(
            f"{where}: expected a coordinate policy that names the candidates, found none."
        )
    names = value.coords["policy"].values.tolist()
    for name in names:
        if not isinstance(name, str) or not name:
            raise BeliefError(f"{where}: expected policy names as text, found {name!r}.")
        if names.count(name) > 1:
            raise BeliefError(f"{where}: two policies are named {name!r}. Rename one of them.")
    if "chain" not in value.dims:
        value = value.expand_dims("chain")
    values = np.asarray(value.transpose(*_SAMPLE_DIMS).values)
    if values.dtype.kind not in "iuf":
        raise BeliefError(f"{where}: expected real numbers, found {values.dtype}.")
    values = values.astype(np.float64)
    n_draws = values.shape[0] * values.shape[1]
    if not names or n_draws < 2:
        raise BeliefError(
            f"{where}: expected at least one policy and two draws, found {len(names)} and "
            f"{n_draws}."
        )
    wrong = (~np.isfinite(values)).sum(axis=(0, 1))
    if wrong.any():
        worst = int(np.argmax(wrong > 0))
        raise BeliefError(
            f"{where}: expected finite values, found NaN or infinity in {wrong[worst]} of "
            f"{n_draws} draws of policy {names[worst]!r}. Fit it again, or leave it out."
        )
    if np.abs(values).max() > _LARGEST:
        raise BeliefError(
            f"{where}: values from {values.min():.3g} to {values.max():.3g} are too far apart for "
            f"double precision, which holds squares of numbers up to {_LARGEST:g}. Rescale the "
            "rewards."
        )
    return ValueDraws(tuple(names), values)


def _weighted(belief: DataTree, weights: Mapping[str, float]) -> ValueDraws:
    """The weighted sum of several variables, draw by draw."""
    for name, weight in weights.items():
        if not isinstance(name, str) or not is_number(weight):
            raise BeliefError(
                f"statistic: expected a finite weight for each name, such as {{'quality': 1, "
                f"'cost': -0.5}}, found {name!r}: {weight!r}."
            )
    if not any(weights.values()):
        raise BeliefError("statistic: expected a weight that is not 0, found none.")
    read = [(float(weight), read_values(belief, name)) for name, weight in weights.items()]
    names = read[0][1].names
    return ValueDraws(names, np.sum([weight * draws.values for weight, draws in read], axis=0))


def read_statistic(belief: DataTree, variable: Which = "value") -> str:
    """What the values are: a statistic, a reward, or a weighted sum such as ``a - 0.5 b``.

    ``value`` is the first of several statistics, or rewards.
    """
    if isinstance(variable, Mapping):
        return _sum_text(variable)
    variable = str(variable)
    if variable != "value":
        return variable
    try:
        found = BeliefView(belief).settings.get("statistic")
    except BeliefError:
        # A belief of another program may use the attribute for something else.
        return "mean"
    return str(found[0]) if found else "mean"


def _sum_text(weights: Mapping[str, float]) -> str:
    """Write a weighted sum: ``quality - 0.5 cost``."""
    text = ""
    for name, weight in weights.items():
        sign = "-" if weight < 0.0 else "+"
        term = name if abs(weight) == 1.0 else f"{abs(weight):g} {name}"
        text += f" {sign} {term}"
    return f"-{text[3:]}" if text.startswith(" -") else text[3:]


def read_warnings(
    belief: DataTree, names: tuple[str, ...], statistic: Which = "value"
) -> list[SupportWarning] | None:
    """Take the support warnings about these candidates out of a belief.

    Parameters
    ----------
    belief
        The belief.
    names
        The candidates; warnings about others are left out.
    statistic
        What is read of it, as for `read_values`. A reward after the first has warnings of its own.

    Returns
    -------
    list of SupportWarning or None
        None if the belief has no such attribute.

    Raises
    ------
    BeliefError
        The attribute cannot be read.
    """
    view = BeliefView(belief)
    found = view.support_warnings
    if found is None:
        return None
    variables = list(statistic) if isinstance(statistic, Mapping) else [str(statistic)]
    told = {name: view.other_warnings.get(name, found) for name in variables}
    keys = [{each[:3] for each in own} for own in told.values()]
    common = set.intersection(*keys)
    # What is said of every reward alike is said once, the rest with the reward's name.
    merged: dict[tuple[str | bool, ...], SupportWarning] = {}
    for name, own in told.items():
        for each in own:
            if each[:3] in common:
                merged.setdefault(each[:3], each)
            else:
                merged[(name, *each[:3])] = each._replace(reason=f"{name}: {each.reason}")
    found = tuple(merged.values())
    return [each for each in found if each.policy in names]


def read_support(belief: DataTree, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Take the support figures of these candidates out of a belief.

    Parameters
    ----------
    belief
        The belief.
    names
        The candidates.

    Returns
    -------
    dict
        For each name the figures of `SUPPORT` that the belief has, NaN where one is not given for
        this candidate.

    Raises
    ------
    BeliefError
        A figure is no number.
    """
    support: dict[str, dict[str, float]] = {name: {} for name in names}
    for variable in SUPPORT:
        figures = _variable(belief, "constant_data", variable)
        if figures is None:
            continue
        known: dict[Any, Any] = {}
        if figures.dims == ("policy",) and "policy" in figures.coords:
            if figures.dtype.kind not in "biuf":
                raise BeliefError(
                    f"constant_data/{variable}: expected numbers, found {figures.dtype}."
                )
            known = dict(zip(figures.coords["policy"].values.tolist(), figures.values, strict=True))
        for name in names:
            support[name][variable] = float(known.get(name, np.nan))
    return support


def read_notes(belief: DataTree) -> list[str]:
    """What a belief says was done to the numbers that it was made from; empty if it says nothing.

    Raises
    ------
    BeliefError
        The attribute cannot be read.
    """
    return [str(note) for note in BeliefView(belief).notes]


def note_on_starts(belief: DataTree) -> str | None:
    """Say which rows are decisions, where a belief of a bandit rests on episodes of several rows.

    Returns
    -------
    str or None
        None if each row is an episode of its own, at another gamma, and where the belief does not
        say.
    """
    view = BeliefView(belief)
    try:
        gamma, rows, episodes = view.settings.get("gamma"), view.n_transitions, view.n_episodes
    except BeliefError:
        # A belief of another program may use the attributes for something else.
        return None
    if view.method or gamma != 0.0 or not 0 < episodes < rows:
        return None
    return (
        "at gamma = 0 a value is the reward of an episode's first row: the states of "
        f"{episodes:,} first rows count, and all {rows:,} rows tell what actions earn there. If "
        "every row is a decision of its own, read the log without its episodes: "
        "ignore=['episode_id'] (--ignore episode_id), by the column's name in the table, and its "
        "steps with it."
    )


@final
class UnseenParts(NamedTuple):
    """What values owe to state-action pairs that were never logged.

    Attributes
    ----------
    mass
        Share of each candidate's steps at which it takes each pair, shape (N, U).
    mean
        Mean of each value without them, and without what their steps count then, reward per step,
        shape (N,).
    center
        Mean of each value, shape (N,).
    share
        Share of each variance that comes from them, shape (N,).
    covariance
        Of what they add to the values, shape (N, N).
    """

    mass: Float[np.ndarray, "N U"]
    mean: Float[np.ndarray, " N"]
    center: Float[np.ndarray, " N"]
    share: Float[np.ndarray, " N"]
    covariance: Float[np.ndarray, "N N"]

    def without(self, values: Float[np.ndarray, "M N"]) -> Float[np.ndarray, "M N"]:
        """Draws of the part of each value that comes from logged pairs."""
        return self.mean + (values - self.center) * np.sqrt(1.0 - self.share)


def read_unseen(belief: DataTree, names: tuple[str, ...]) -> UnseenParts | None:
    """Take what values owe to pairs that were never logged out of a belief.

    Parameters
    ----------
    belief
        The belief.
    names
        The candidates, in the order that is wanted.

    Returns
    -------
    UnseenParts or None
        None if the belief has no such pairs as latents.

    Raises
    ------
    BeliefError
        Some of it is missing.
    """
    view = BeliefView(belief)
    if not _has_latents(belief, view):
        return None
    order = [view.names.index(name) for name in names]
    others = _places_of(belief, BeliefView.unseen_covariance, names)
    center = view.guide_mean[order]
    mean = center - view.unseen_shift[order] - view.unseen_base[order]
    return UnseenParts(
        view.unseen_mass[order],
        mean,
        center,
        np.clip(view.unseen_share[order], 0.0, 1.0),
        view.unseen_covariance[np.ix_(order, others)],
    )


@final
class UnseenMoves(NamedTuple):
    """What knowing a state-action pair that was never logged would do to the values' means.

    Attributes
    ----------
    state, action
        Labels of the pairs as text, U of them.
    mass
        Share of each candidate's steps at which it takes each pair, shape (N, U).
    move
        Sd of what each mean would move by if the pair's worth were known, reward per step, shape
        (N, U). A negative number moves the other way.
    alike
        Correlation of a pair's worth to two candidates, shape (N, N).
    """

    state: list[str]
    action: list[str]
    mass: Float[np.ndarray, "N U"]
    move: Float[np.ndarray, "N U"]
    alike: Float[np.ndarray, "N N"]

    def covariance(self, pair: int) -> Float[np.ndarray, "N N"]:
        """Of what the means would move by if one pair's worth were known, shape (N, N)."""
        moved: np.ndarray = self.alike * np.outer(self.move[:, pair], self.move[:, pair])
        return moved


def read_moves(belief: DataTree, names: tuple[str, ...]) -> UnseenMoves | None:
    """Take what knowing pairs that were never logged would do to the values out of a belief.

    Parameters
    ----------
    belief
        The belief.
    names
        The candidates, in the order that is wanted.

    Returns
    -------
    UnseenMoves or None
        None if the belief has no such pairs as latents of a mean reward.

    Raises
    ------
    BeliefError
        Some of it is missing.
    """
    view = BeliefView(belief)
    if not _has_latents(belief, view):
        return None
    order = [view.names.index(name) for name in names]
    others = _places_of(belief, BeliefView.unseen_alike, names)
    return UnseenMoves(
        [str(label) for label in view.unseen_state],
        [str(label) for label in view.unseen_action],
        view.unseen_mass[order],
        view.unseen_move[order],
        view.unseen_alike[np.ix_(order, others)],
    )


def _has_latents(belief: DataTree, view: BeliefView) -> bool:
    """Whether pairs that were never logged are latents of a mean reward."""
    return "posterior" in belief.children and view.has(BeliefView.unseen_base)


def _places_of(belief: DataTree, variable: Variable, names: tuple[str, ...]) -> list[int]:
    """Columns of these candidates in a square variable."""
    # A belief of some of its candidates keeps the columns of all.
    known = belief["constant_data"][_OTHER].to_numpy().tolist()
    if not set(names) <= set(known):
        raise BeliefError(
            f"belief: expected constant_data/{variable.name} to have every candidate as "
            f"{_OTHER}, found {len(known)} of them. Fit it again."
        )
    return [known.index(name) for name in names]


def _variable(belief: DataTree, group: str, name: str) -> DataArray | None:
    """Look a variable up in a group; None where there is no such group, variable or tree."""
    groups = getattr(belief, "children", {})
    return groups[group].data_vars.get(name) if group in groups else None
