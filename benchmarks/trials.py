"""From a world to a thousand beliefs: logs simulated, counted and believed in one compiled call.

Every log is counted into the cells that are possible in its world, so that all have one shape and
trials can be batched. From the counts on, a trial goes through the functions that
`bayesdice_ppl.fit` is made of, as those of experiments do.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bayesdice_ppl.experiments.value_beliefs import check_form
from bayesdice_ppl.fitting import FitSettings, flat_settings
from bayesdice_ppl.inference.marginals import one_value
from bayesdice_ppl.moments import Candidates, Cells, renormalize
from bayesdice_ppl.simulation import sample_transitions
from benchmarks.layout import Setting, World, count, numbers_of, stack_worlds

# Trials that are held in memory at once.
_BATCH = 50


class Believed(NamedTuple):
    """What one belief says of the value, every field with a leading axis over trials.

    Attributes
    ----------
    mean, sd, df
        Location, scale and degrees of freedom of the value's Student t.
    moved
        Share of the target's steps whose action was not logged.
    degenerate
        Whether all logged rewards are equal.
    n_transitions
        Size of the log.
    """

    mean: Float[Array, "*t"]
    sd: Float[Array, "*t"]
    df: Float[Array, "*t"]
    moved: Float[Array, "*t"]
    degenerate: Bool[Array, "*t"]
    n_transitions: Float[Array, "*t"]


def believe(
    cells: Cells,
    probabilities: Float[Array, "S A"],
    settings: FitSettings,
    *,
    multiple: float = 1.0,
) -> Believed:
    """Closed-form belief about one policy from one log, lambda / epsilon a multiple of n.

    Raises
    ------
    SettingsError
        `check_form` refuses the settings.

    Notes
    -----
    `fit` also leaves out pairs that the target cannot get to from the first states. Here every
    logged pair was got to from there, by steps that the target takes with positive probability.
    """
    check_form(settings)
    visits = jax.ops.segment_sum(cells.count, cells.pair, num_segments=len(cells.pair_state))
    logged = (visits > 0.0).astype(visits.dtype)
    target, kept = renormalize(probabilities, cells.pair_state, cells.pair_action, logged)
    active = logged * (target > 0.0)
    found = one_value(
        cells,
        Candidates(target, active, kept),
        settings.form,
        multiple * cells.n_transitions,
    )
    share = found.pilot.ratio * cells.count / cells.n_transitions
    moved = jnp.sum(share * (1.0 - kept[cells.pair_state[cells.pair]]))
    total, square = jnp.sum(cells.reward_sum), jnp.sum(cells.reward_square_sum)
    equal = square * cells.n_transitions - total**2 <= 1e-9 * square * cells.n_transitions
    return Believed(
        mean=found.mean,
        sd=found.sd,
        df=found.pilot.degrees_of_freedom,
        moved=moved,
        degenerate=equal,
        n_transitions=cells.n_transitions,
    )


def run_trials(
    setting: Setting,
    rng_key: PRNGKeyArray,
    n_trials: int,
    forms: Mapping[str, Mapping[str, Any]],
) -> dict[str, Believed]:
    """Simulate logs and make a belief of each form from each of them, in one compiled call.

    Parameters
    ----------
    setting
        World, policies and size of the logs.
    rng_key
        Split into one key a trial.
    n_trials
        Number of logs.
    forms
        Name -> choices of `flat_settings`, and ``multiple``, lambda / epsilon in units of n (1);
        every form sees the same logs.

    Returns
    -------
    dict
        Name of the form -> its beliefs, float64, one entry a trial.
    """
    world, trial = numbers_of(setting), _one_trial(setting, forms)

    @jax.jit
    def trials(keys: PRNGKeyArray) -> dict[str, Believed]:
        return jax.lax.map(partial(trial, world), keys, batch_size=min(_BATCH, n_trials))

    with jax.enable_x64(True):
        found = trials(jax.random.split(rng_key, n_trials))
        return jax.tree.map(np.asarray, found)


def run_worlds(
    settings: Sequence[Setting], rng_key: PRNGKeyArray, forms: Mapping[str, Mapping[str, Any]]
) -> dict[str, Believed]:
    """Simulate one log of each of many worlds and make beliefs from it, in one compiled call.

    Parameters
    ----------
    settings
        Worlds and policies, in all else the same, with as many states, actions, possible pairs
        and possible first states.
    rng_key
        Split into one key a world.
    forms
        As in `run_trials`.

    Returns
    -------
    dict
        Name of the form -> its beliefs, float64, one entry a world.

    Raises
    ------
    ValueError
        The settings ask for different logs or discounts.
    """
    if len({setting[4:] for setting in settings}) > 1:
        raise ValueError("run_worlds: expected one size of log, discount and reading in all worlds")
    worlds, trial = stack_worlds(list(map(numbers_of, settings))), _one_trial(settings[0], forms)

    @jax.jit
    def trials(worlds: World, keys: PRNGKeyArray) -> dict[str, Believed]:
        return jax.lax.map(lambda given: trial(*given), (worlds, keys))

    with jax.enable_x64(True):
        found = trials(worlds, jax.random.split(rng_key, len(settings)))
        return jax.tree.map(np.asarray, found)


def _one_trial(
    setting: Setting, forms: Mapping[str, Mapping[str, Any]]
) -> Callable[[World, PRNGKeyArray], dict[str, Believed]]:
    """Make the function that plays one log and believes it in every form."""
    multiples = {name: choices.get("multiple", 1.0) for name, choices in forms.items()}
    fits = {
        name: flat_settings(
            gamma=setting.gamma,
            inference="exact",
            on_termination=setting.on_termination,
            **{key: choice for key, choice in choices.items() if key != "multiple"},
        )
        for name, choices in forms.items()
    }

    def trial(world: World, key: PRNGKeyArray) -> dict[str, Believed]:
        played = sample_transitions(
            world.outcomes,
            world.initial_distribution,
            world.behavior,
            setting.n_episodes,
            setting.max_steps,
            key,
        )
        cells, policy = count(world.layout, played), jnp.asarray(world.target)
        return {name: believe(cells, policy, fits[name], multiple=multiples[name]) for name in fits}

    return trial
