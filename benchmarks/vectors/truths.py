"""Truths: the value of every candidate of every world, by long simulation, with standard errors.

A value is (1 - gamma) E sum_t gamma^t r_t without any time limit, up to a millionth of the
discounted weight. Under "restart" a fresh start follows a termination and the sum goes on; under
"absorb" nothing is earned after it. Reacher's values ship with the library.
"""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

from bayesdice_ppl.experiments.tables import provenance
from bayesdice_ppl.outputs import write_json
from bayesdice_ppl.simulation import stored_value
from benchmarks.tables import RESULTS
from benchmarks.vectors.bandit import bandit_value
from benchmarks.vectors.play import Value, play_value
from benchmarks.vectors.worlds import WORLDS, make_world

COMMAND = "python -m benchmarks vectors --truths"
FILE = RESULTS / "vector_truths.json"
SEED = 7
EPISODES = {"restart": 40_000, "absorb": 120_000}
"""Episodes of a value by simulation: where they end, their sum depends on chance much more."""
CONTEXTS = 4_000_000


def truth_seed(world: str, candidate: str) -> int:
    """Seed of one value; no log has it."""
    return crc32(f"{SEED} {world} {candidate}".encode())


def find_value(pair: tuple[str, str]) -> dict[str, Any]:
    """Simulate one candidate's value, with its standard error, seed and number of episodes."""
    name, candidate = pair
    world = make_world(name)
    # Logs of the bandit differ in size alone, and its values not at all.
    seed = truth_seed("bandit" if world.gamma == 0.0 else name, candidate)
    policy = world.policies[candidate]
    if world.simulator is not None:
        restart, n = world.on_termination == "restart", EPISODES[world.on_termination]
        found = play_value(world.simulator, policy, world.gamma, n, seed, restart=restart)
        return {**found._asdict(), "seed": seed, "episodes": n}
    if world.gamma == 0.0:
        found = bandit_value(policy, CONTEXTS, seed)
        return {**found._asdict(), "seed": seed, "episodes": CONTEXTS}
    stored = stored_value("reacher", float(candidate.removeprefix("alpha_")), world.gamma)
    if stored is None:
        raise ValueError(f"truths: expected a stored value of {candidate}, found none.")
    found = Value(float(stored), stored.standard_error)
    return {**found._asdict(), "source": "python -m benchmarks reacher"}


def write_truths(names: Sequence[str] = WORLDS, path: Path = FILE) -> None:
    """Find the values of some worlds, in two processes, and write them; others stay as they are."""
    worlds: dict[str, Any] = _read(path) if path.exists() else {}
    pairs = [(name, candidate) for name in names for candidate in make_world(name).policies]
    for name in names:
        world = make_world(name)
        kind = {"gamma": world.gamma, "on_termination": world.on_termination}
        worlds[name] = {**kind, "candidates": {}}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for (name, candidate), found in zip(pairs, pool.map(find_value, pairs), strict=True):
            worlds[name]["candidates"][candidate] = found
            value, error = found["value"], found["standard_error"]
            print(f"{name}, {candidate}: {value:.5f} +- {error:.5f}", flush=True)
    ordered = {name: worlds[name] for name in WORLDS if name in worlds}
    write_json({"provenance": provenance(COMMAND), "worlds": ordered}, path)


def _read(path: Path) -> dict[str, Any]:
    worlds: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["worlds"]
    return worlds


@cache
def known_truths(world: str) -> dict[str, Value]:
    """The stored values of a world's candidates, by name."""
    table = _read(FILE)[world]["candidates"]
    return {name: Value(row["value"], row["standard_error"]) for name, row in table.items()}
