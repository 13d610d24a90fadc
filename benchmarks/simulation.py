"""Simulation: steps a second in each world, against a plain loop over Gymnasium.

`simulate` is timed up to the finished log. The loop is what one writes without it: reset and step
a single environment, draw each action from the policy, and append what is needed for a log to
lists.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesdice_ppl as bd
from bayesdice_ppl.envs.reacher import reacher_network
from bayesdice_ppl.simulation import make_world, sample_transitions
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks simulation"
TABULAR = ("bandit", "contextualbandit", "frozenlake", "garnet", "riverswim", "taxi")
PLAYED = ("cartpole", "reacher")
RUNS, SEED, STEPS, BEHAVIOR = 5, 3, 100, 0.5
EPISODES = {"tabular": 10_000, "played": 512}
LOOP_STEPS = {"tabular": 20_000, "played": 10_000}
BAR = 50
NOTES = (
    f"Logging policy alpha = {BEHAVIOR}, episodes of {STEPS} steps: "
    f"{EPISODES['tabular'] * STEPS:,} steps of tabular worlds, {EPISODES['played'] * STEPS:,} of "
    "the others; medians of five runs after compilation. `simulate` ends with the finished log, "
    "`sampler` with its arrays. The bar of 50 is for tabular worlds, which are sampled in JAX.",
    "The others are played through Gymnasium's vector environments, whose copies take turns: a "
    "step costs what the game's own Python costs. CartPole gains because the policy is asked for "
    "all copies at once; of Reacher's step the physics is half.",
)


def median_seconds(once: Callable[[], object]) -> float:
    """Median seconds of several runs after one that compiles."""
    once()
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))


def plain_loop(world: Any, choose: Callable[[Any, np.random.Generator], tuple[Any, float]]) -> Any:
    """Play one environment step by step, as one would without this library."""
    env, rng = world.env, np.random.default_rng(SEED)
    kind = "tabular" if world.name in TABULAR else "played"
    rows: list[tuple[Any, ...]] = []
    state, _ = env.reset(seed=SEED)
    for step in range(LOOP_STEPS[kind]):
        action, propensity = choose(state, rng)
        following, reward, terminated, truncated, _ = env.step(action)
        rows.append((state, action, reward, following, terminated, truncated, propensity))
        state = following
        if step % STEPS == STEPS - 1:
            state, _ = env.reset()
    return rows


def chooser(world: Any) -> Callable[[Any, np.random.Generator], tuple[Any, float]]:
    """Draw one action in plain NumPy."""
    if world.name in TABULAR:
        table = world.behavior.probabilities
        limits = np.cumsum(table, axis=1)
        limits[:, -1] = 1.0

        def of_table(state: int, rng: np.random.Generator) -> tuple[int, float]:
            action = int(np.searchsorted(limits[state], rng.random(), side="right"))
            return action, float(table[state, action])

        return of_table
    if world.name == "cartpole":

        def of_push(state: np.ndarray, rng: np.random.Generator) -> tuple[int, float]:
            probability = world.behavior.probs(state[None])[0]
            action = int(rng.random() >= probability[0])
            return action, float(probability[action])

        return of_push
    network, sd = reacher_network(), float(world.behavior.sd)

    def of_torque(state: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        hidden = state
        for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
            hidden = np.maximum(hidden @ weight + bias, 0.0)
        noise = rng.normal(size=2)
        action = np.tanh(hidden @ network.weights[-1] + network.biases[-1]) + sd * noise
        return action, float(np.exp(-0.5 * noise @ noise) / (2 * np.pi * sd**2))

    return of_torque


def time_world(name: str) -> dict[str, Any]:
    """One row of the table."""
    world = make_world(name, alpha=BEHAVIOR)
    kind = "tabular" if name in TABULAR else "played"
    episodes = EPISODES[kind]
    key = jax.random.key(SEED)
    simulated = median_seconds(
        lambda: bd.simulate(world.env, world.behavior, episodes, STEPS, rng_key=key)
    )
    sampled = None
    if kind == "tabular":
        env, table = world.env, world.behavior.probabilities
        sampled = median_seconds(
            lambda: jax.block_until_ready(
                sample_transitions(
                    env.outcomes, env.initial_distribution, table, episodes, STEPS, key
                )
            )
        )
    choose = chooser(world)
    looped = median_seconds(lambda: plain_loop(world, choose)) / LOOP_STEPS[kind]
    per_step = simulated / (episodes * STEPS)
    ratio = looped / per_step
    return {
        "world": name,
        "simulate, steps/s": round(1 / per_step),
        "sampler, steps/s": None if sampled is None else round(episodes * STEPS / sampled),
        "plain loop, steps/s": round(1 / looped),
        "ratio": ratio,
        "bar": BAR if kind == "tabular" else None,
        "within": ratio >= BAR if kind == "tabular" else None,
    }


def main(folder: Path = RESULTS) -> None:
    """Fill the table and print it."""
    rows = [time_world(name) for name in (*TABULAR, *PLAYED)]
    print(write_table("simulation", rows, command=COMMAND, notes=NOTES, folder=folder))
