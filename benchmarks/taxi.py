"""Taxi: are beliefs calibrated with thousands of pairs, many of them never logged.

A hundred logs of each size are simulated, and the five candidates' beliefs are held against their
exact values. As `fit` does for as many pairs, the value is found alone, without their weights.
Probability of actions that were never logged is moved to logged ones (``unseen="moved"``), and
values have Student's t without skewness.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.envs import Outcomes
from bayesdice_ppl.fitting import FitSettings
from bayesdice_ppl.fitting.support import state_flow
from bayesdice_ppl.inference import fit_value
from bayesdice_ppl.moments import Candidates, Cells, reach, renormalize
from bayesdice_ppl.policies import Policies
from bayesdice_ppl.simulation import World, make_world, sample_transitions, true_value
from benchmarks.calibration import BAR
from benchmarks.calibration import summarize as hold_against_truth
from benchmarks.coverage import central_mass, measure_coverage
from benchmarks.layout import Setting, count, lay_out
from benchmarks.tables import RESULTS, write_table
from benchmarks.trials import Believed

SEED = 0
TRIALS = 100
STEPS = 100
SIZES = (200, 1000)
"""Episodes of a log."""

COMMAND = "python -m benchmarks taxi"
NOTES = (
    f"One row is one size of log (episodes of {STEPS} steps of the logging policy, alpha 0.5) and "
    "one candidate; all candidates of a size are judged on the same logs, so that rows are not "
    "independent. Discount 0.99.",
    "`cov_50` to `cov_95`, `mace`, `mace_se`, `bias_sd` and `sd_ratio` are those of the "
    f"calibration table, and `passes` means mace <= {BAR} + 2 mace_se. Calibrated beliefs show a "
    "mace near 0.03 in 100 trials.",
    "`bias_of_moving`: mean over trials of the exact value of the candidate renormalized over the "
    "logged actions, minus its own, in mean posterior sds: the part of the bias that no transition "
    "in the log could show. `mace_renormalized`: the mace against the renormalized candidate's "
    "value, which is what the log can tell. `df`: median degrees of freedom.",
    "`pairs`: mean number of state-action pairs that a log holds, of 2,400 that can be visited. "
    "`moved_mean`, `moved_max`: share of the candidate's steps whose action was not logged in its "
    "state, and whose probability was moved to logged ones, over trials. `stranded`: share of "
    "trials in which the candidate gets to a state without any logged action; `lost_mean`, "
    "`lost_max`: share of its steps about which a log then has nothing, over all trials.",
)


class Judged(NamedTuple):
    """One candidate on one log.

    Attributes
    ----------
    mean, sd, df
        Location, scale and degrees of freedom of the value's Student t.
    moved, lost
        Shares of the candidate's steps; see `bayesdice_ppl.fitting.support.Support`.
    stranded
        Whether the candidate gets to a state in which it takes no logged action.
    renormalized
        True value of the candidate once renormalized over the actions logged in each state.
    pairs
        Number of logged pairs.
    degenerate
        Whether all logged rewards are equal.
    n_transitions
        Size of the log.
    """

    mean: float
    sd: float
    df: float
    moved: float
    lost: float
    stranded: bool
    renormalized: float
    pairs: int
    degenerate: bool
    n_transitions: float


def play_logs(setting: Setting, rng_key: PRNGKeyArray, n_trials: int) -> Iterator[Cells]:
    """Simulate logs one by one, counted into the cells that are possible in the world.

    Parameters
    ----------
    setting
        World, behavior policy and size; the target is not read.
    rng_key
        Split into one key a log.
    n_trials
        Number of logs.

    Yields
    ------
    Cells
        NumPy arrays in float64.
    """
    layout = lay_out(setting)
    outcomes: Outcomes = setting.env.outcomes
    start, behavior = setting.env.initial_distribution, setting.behavior.probabilities
    sample = partial(
        sample_transitions, outcomes, start, behavior, setting.n_episodes, setting.max_steps
    )
    play = jax.jit(lambda key: count(layout, sample(key)))
    for key in jax.random.split(rng_key, n_trials):
        with jax.enable_x64(True):
            cells = jax.tree.map(np.asarray, play(key))
        yield cells


_onto_pairs = jax.jit(renormalize)


def judge(cells: Cells, setting: Setting) -> Judged:
    """Belief about one candidate from one log, as `bayesdice_ppl.fit` prepares and makes it.

    Parameters
    ----------
    cells
        The log, from `play_logs`.
    setting
        World, candidate and discount.
    """
    probabilities, gamma = setting.target.probabilities, setting.gamma
    n_states = len(probabilities)
    settings = FitSettings(gamma, inference="exact")
    visits = np.bincount(cells.pair, cells.count, minlength=len(cells.pair_state))
    logged = (visits > 0.0).astype(np.float64)
    with jax.enable_x64(True):
        found = _onto_pairs(probabilities, cells.pair_state, cells.pair_action, logged)
        target, kept = (np.asarray(array) for array in found)
    seen = cells.count > 0.0
    starts = np.zeros(n_states, dtype=bool)
    starts[cells.initial_state[cells.initial_weight > 0.0]] = True
    edges = (cells.pair[seen], cells.successor[seen])
    reached = reach(target, cells.pair_state, edges, starts)
    active = reached.pair.astype(np.float64)
    form = settings.form
    fitted = fit_value(
        cells,
        Candidates(target, active, kept),
        form.moments,
        form.prior,
        small_sample=form.small_sample,
    )
    pilot, n = fitted.pilot, np.float64(cells.n_transitions)
    posterior = fitted.ratio.posterior(pilot.covariance, n)
    moved, lost = state_flow(
        cells,
        pilot.ratio[None],
        kept[None],
        reached.dead_state[None],
        np.array([1.0 - gamma]),
        gamma,
    )
    renormalized = np.where(kept[:, None] > 0.0, 0.0, probabilities)
    renormalized[cells.pair_state, cells.pair_action] += target
    square = float(cells.reward_square_sum.sum())
    variance = square / cells.n_transitions - (cells.reward_sum.sum() / cells.n_transitions) ** 2
    return Judged(
        mean=float(posterior.mean[0]),
        sd=float(posterior.factor[0, 0]),
        df=float(pilot.degrees_of_freedom),
        moved=float(moved[0]),
        lost=float(lost[0]),
        stranded=bool(reached.dead_state.any()),
        renormalized=float(true_value(setting.env, renormalized, gamma)),
        pairs=int(logged.sum()),
        degenerate=bool(variance <= 1e-9 * square / cells.n_transitions),
        n_transitions=float(cells.n_transitions),
    )


def summarize(setting: Setting, policy: str, judged: Sequence[Judged]) -> dict[str, object]:
    """Hold one candidate's beliefs from all logs against its true value: one row of the table."""
    found = {name: np.array([getattr(one, name) for one in judged]) for name in Judged._fields}
    believed = Believed(*(found[name] for name in Believed._fields))
    row = hold_against_truth(setting, "default", believed)
    truth = true_value(setting.env, setting.target, setting.gamma)
    mass = central_mass(*(found[name] for name in ("mean", "sd", "df", "renormalized")))
    omitted = ("cell", "form", "moved_mass", "moved", "degenerate")
    return {
        "transitions": setting.n_episodes * setting.max_steps,
        "policy": policy,
        **{name: row[name] for name in row if name not in omitted},
        "bias_of_moving": float(np.mean(found["renormalized"] - truth) / np.mean(found["sd"])),
        "mace_renormalized": measure_coverage(mass, seed=SEED).mace,
        "df": float(np.median(found["df"])),
        "pairs": float(np.mean(found["pairs"])),
        "moved_mean": float(np.mean(found["moved"])),
        "moved_max": float(np.max(found["moved"])),
        "stranded": float(np.mean(found["stranded"])),
        "lost_mean": float(np.mean(found["lost"])),
        "lost_max": float(np.max(found["lost"])),
    }


def run_size(
    world: World, n_episodes: int, max_steps: int, n_trials: int
) -> list[dict[str, object]]:
    """All rows of one size of log: every candidate judged on the same logs."""
    candidates: Policies = world.candidates
    settings = {
        name: Setting(
            name, world.env, world.behavior, target, n_episodes, max_steps, world.gamma_hint
        )
        for name, target in candidates.items()
    }
    judged: dict[str, list[Judged]] = {name: [] for name in settings}
    one = next(iter(settings.values()))
    for cells in play_logs(one, jax.random.key(SEED), n_trials):
        for name, setting in settings.items():
            judged[name].append(judge(cells, setting))
    return [summarize(setting, name, judged[name]) for name, setting in settings.items()]


def main(n_trials: int = TRIALS, folder: Path = RESULTS, sizes: Sequence[int] = SIZES) -> None:
    """Fill the table and print it."""
    rows = []
    for n_episodes in sizes:
        started = time.perf_counter()
        rows += run_size(make_world("taxi"), n_episodes, STEPS, n_trials)
        seconds = time.perf_counter() - started
        print(f"{n_episodes * STEPS:,} transitions: {seconds:.0f} s", flush=True)
    command = COMMAND if n_trials == TRIALS else f"{COMMAND} --trials {n_trials}"
    print(write_table("taxi", rows, command=command, notes=NOTES, folder=folder))
