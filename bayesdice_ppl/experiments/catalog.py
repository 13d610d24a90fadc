"""Experiments by name, with the choices that a command line offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bayesdice_ppl.checks import listed, one_of, whole
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.experiments.ablation import PLAN as ABLATION_PLAN
from bayesdice_ppl.experiments.ablation import Ablation
from bayesdice_ppl.experiments.ci import PLAN as CI_PLAN
from bayesdice_ppl.experiments.ci import IntervalCoverage
from bayesdice_ppl.experiments.experiment import Experiment
from bayesdice_ppl.experiments.selection import PLAN as SELECTION_PLAN
from bayesdice_ppl.experiments.selection import PolicySelection
from bayesdice_ppl.experiments.trials import Cell, Plan


class _Entry(NamedTuple):
    """An experiment: its plan, and how it is made from cells, in its marginal version too."""

    plan: Plan
    make: Callable[[tuple[Cell, ...]], Experiment]
    make_marginal: Callable[[tuple[Cell, ...]], Experiment] | None = None


_ENTRIES = {
    "ci": _Entry(CI_PLAN, IntervalCoverage, lambda cells: IntervalCoverage(cells, marginal=True)),
    "ablation": _Entry(ABLATION_PLAN, Ablation),
    "selection": _Entry(SELECTION_PLAN, PolicySelection),
}
NAMES = tuple(_ENTRIES)
"""Names of the experiments."""


def worlds_of(name: str) -> tuple[str, ...]:
    """Worlds that an experiment can be run in.

    Raises
    ------
    SettingsError
        There is no such experiment.
    """
    return tuple(_ENTRIES[one_of("experiment", name, NAMES)].plan.logs)


def make_experiment(
    name: str,
    *,
    quick: bool = False,
    marginal: bool = False,
    worlds: Sequence[str] | None = None,
    trials: int | None = None,
) -> Experiment:
    """Make an experiment by its name.

    Parameters
    ----------
    name
        One of `NAMES`.
    quick
        A few small cells, in minutes: to see that everything works, not what is true.
    marginal
        For ``"ci"``: compare with intervals from marginalized importance sampling.
    worlds
        Which worlds. None: all, or the smallest in a quick run.
    trials
        Trials of each cell. None: as many as the experiment has.

    Raises
    ------
    SettingsError
        There is no such experiment or world, or the choices do not go together.
    """
    allowed = worlds_of(name)
    if worlds is not None:
        found = listed(worlds) or "none"
        if not worlds or not set(worlds) <= set(allowed) or len(set(worlds)) < len(worlds):
            raise SettingsError(
                f"worlds of {name}: expected some of {listed(allowed)}, each at most once, "
                f"found {found}."
            )
    if trials is not None:
        whole("trials", trials, 2)
    plan, make, make_marginal = _ENTRIES[name]
    if marginal and make_marginal is None:
        having = [each for each, entry in _ENTRIES.items() if entry.make_marginal is not None]
        raise SettingsError(f"marginal: expected one of {listed(having)}, found {name!r}.")
    cells = plan.cells(worlds, quick=quick, trials=trials)
    return make_marginal(cells) if marginal and make_marginal is not None else make(cells)
