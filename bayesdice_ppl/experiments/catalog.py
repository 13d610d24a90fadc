"""Experiments by name, with the choices that a command line offers."""

from __future__ import annotations

from collections.abc import Sequence

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.experiments import ablation, ci, selection
from bayesdice_ppl.experiments.experiment import Experiment

_PLANS = {"ci": ci.PLAN, "ablation": ablation.PLAN, "selection": selection.PLAN}
NAMES = tuple(_PLANS)
"""Names of the experiments."""


def worlds_of(name: str) -> tuple[str, ...]:
    """Worlds that an experiment can be run in.

    Raises
    ------
    SettingsError
        There is no such experiment.
    """
    if name not in _PLANS:
        raise SettingsError(f"experiment: expected one of {', '.join(NAMES)}, found {name!r}.")
    return tuple(_PLANS[name].logs)


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
        Of ``"ci"``: compare with intervals from marginalized importance sampling.
    worlds
        Which worlds; None: all, of a quick run the smallest.
    trials
        Trials of each cell; None: as many as the experiment has.

    Raises
    ------
    SettingsError
        There is no such experiment or world, or the choices do not go together.
    """
    allowed = worlds_of(name)
    if worlds is not None:
        unknown = [world for world in worlds if world not in allowed]
        if unknown or not worlds:
            found = repr(unknown[0]) if unknown else "none"
            raise SettingsError(f"worlds of {name}: expected {', '.join(allowed)}; found {found}.")
        if len(set(worlds)) != len(worlds):
            raise SettingsError(f"worlds of {name}: expected each at most once, found {worlds}.")
    if trials is not None and (
        isinstance(trials, bool) or not isinstance(trials, int) or trials < 2
    ):
        raise SettingsError(f"trials: expected a whole number of at least 2, found {trials!r}.")
    if marginal and name != "ci":
        raise SettingsError(f"marginal: {name} has no such version; it belongs to ci.")
    cells = _PLANS[name].cells(worlds, quick=quick, trials=trials)
    if name == "ci":
        return ci.IntervalCoverage(cells, marginal)
    return ablation.Ablation(cells) if name == "ablation" else selection.PolicySelection(cells)
