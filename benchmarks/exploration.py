"""Exploration: regret of explorers in three worlds, in the same loop and with the same prior.

Regret is exact: after each round, its steps times what its policy lacks of the best one, by the
world's table. Every seed is a run of its own; explorers meet the same seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesdice_ppl.envs import Bandit, Garnet, InfiniteFrozenLake, RiverSwim
from bayesdice_ppl.exploration import bayesdice, explore, psrl, q_learning, rlsvi, ucbvi
from bayesdice_ppl.exploration.explorers import Explorer
from bayesdice_ppl.models import PairCounts, pair_beliefs, pair_prior, pair_variance, variance
from bayesdice_ppl.outputs import staged_file
from bayesdice_ppl.progress import parts
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks exploration"
TRIALS, SEED = 30, 0
ARMS = np.linspace(0.1, 0.9, 10)
PRIOR = pair_prior(0.0, 1.0)
WORLDS: dict[str, tuple[Any, float, int, int]] = {
    "bandit": (lambda: Bandit(ARMS), 0.0, 200, 10),
    "riverswim": (lambda: RiverSwim(6), 0.99, 100, 100),
    "frozenlake": (InfiniteFrozenLake, 0.99, 100, 100),
}
"""World, discount, rounds and steps in each."""
EXPLORERS: dict[str, Explorer] = {
    "bayesdice, quantile": bayesdice(),
    "bayesdice, variance 10": bayesdice(variance(10.0)),
    "bayesdice, mean": bayesdice(variance(0.0)),
    "psrl": psrl(),
    "rlsvi": rlsvi(),
    "q_learning": q_learning(),
    "ucbvi": ucbvi(),
}
REFERENCE = "psrl"
VISITS = tuple(2**k for k in range(4, 13))
NOTES = (
    "`regret`: reward lost in all rounds against the best policy, mean over seeds with its 95 % "
    "interval. `late`: reward lost per step in the last quarter, as a share of the best value. "
    "`growth`: log2 of the regret at the end over that at half time, 1 if it grows linearly, 0 if "
    "it has stopped. `ratio`: mean regret over that of psrl, with the 95 % interval of the "
    "bootstrap over seeds. `seconds`: of one choice, median.",
    "Worlds: ten Bernoulli arms of 0.1 to 0.9 (gamma 0, 200 rounds of 10 pulls); RiverSwim of 6 "
    "places and FrozenLake (gamma 0.99, 100 rounds of 100 steps, each from the start). All "
    "explorers keep a policy for a round. Rewards lie in 0 to 1, and the prior has one imaginary "
    "step a pair. ucbvi has Hoeffding's bonus, epsilon of q_learning is k^-1/2 in round k.",
)


def run(world: str, explorer: Explorer, seed: int) -> tuple[np.ndarray, float, float]:
    """Cumulative regret by round, best value, and median seconds of a choice."""
    make, gamma, rounds, steps = WORLDS[world]
    done = explore(
        make(),
        explorer,
        rounds=rounds,
        steps=steps,
        gamma=gamma,
        rewards=PRIOR,
        rng_key=jax.random.fold_in(jax.random.key(SEED), seed),
    )
    assert done.best is not None
    seconds = float(np.median(done.rounds["seconds"].to_numpy()))
    return done.rounds["regret"].to_numpy(), done.best, seconds


def summarize(
    world: str,
    name: str,
    curves: np.ndarray,
    reference: np.ndarray,
    best: float,
    seconds: float,
    *,
    steps: int | None = None,
) -> dict[str, object]:
    """A row of the table, from the regret curves of all seeds, shape (seeds, rounds)."""
    steps = WORLDS[world][3] if steps is None else steps
    n, rounds = len(curves), curves.shape[1]
    last = curves[:, -1]
    half, late = curves[:, rounds // 2 - 1], rounds - rounds // 4
    rng = np.random.default_rng(SEED)
    pick = rng.integers(n, size=(2000, n))
    ratios = last[pick].mean(axis=1) / reference[:, -1][pick].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    lost = (last - curves[:, late - 1]).mean() / ((rounds - late) * steps)
    width = 1.96 * last.std(ddof=1) / np.sqrt(n)
    return {
        "world": world,
        "explorer": name,
        "regret": float(last.mean()),
        "regret_low": float(last.mean() - width),
        "regret_high": float(last.mean() + width),
        "late": float(lost / best),
        "growth": float(np.log2(last.mean() / half.mean())),
        "ratio": float(last.mean() / reference[:, -1].mean()),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "seconds": seconds,
        "seeds": n,
    }


def bonus_slope(n_logs: int = 40) -> tuple[float, float]:
    """Slope of log(variance of a pair) by log(visits), with its standard error over logs."""
    world = Garnet(4, 2, 2, seed=3)
    table, value = world.outcomes, np.array([0.0, 1.0, 3.0, 2.0])
    slopes = []
    for seed in range(n_logs):
        rng, logs = np.random.default_rng(seed), []
        for n in VISITS:
            sums = np.zeros((3, 4, 2, 4))
            for s, a in np.ndindex(4, 2):
                seen = rng.multinomial(n, table.probability[s, a])
                for k, count in enumerate(seen):
                    r = table.reward[s, a, k]
                    sums[:, s, a, table.next_state[s, a, k]] += count * np.array([1.0, r, r * r])
            counts = PairCounts(*sums, np.ones(4))
            logs.append(np.log(pair_variance(pair_beliefs(counts, PRIOR), value, 0.9)).mean())
        slopes.append(np.polyfit(np.log(VISITS), logs, 1)[0])
    return float(np.mean(slopes)), float(np.std(slopes, ddof=1) / np.sqrt(n_logs))


def draw(curves: dict[tuple[str, str], np.ndarray], path: Path) -> None:
    """Regret by step, with 95 % bands over seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    for panel, world in zip(figure.subplots(1, len(WORLDS)), WORLDS, strict=True):
        steps = WORLDS[world][3]
        for name in EXPLORERS:
            found = curves[world, name]
            at = steps * np.arange(1, found.shape[1] + 1)
            mean, sd = found.mean(axis=0), found.std(axis=0, ddof=1)
            (line,) = panel.plot(at, mean, label=name, lw=2.0 if "quantile" in name else 1.2)
            band = 1.96 * sd / np.sqrt(len(found))
            panel.fill_between(at, mean - band, mean + band, color=line.get_color(), alpha=0.15)
        panel.set(title=world, xlabel="steps")
        if world == "riverswim":
            panel.set_yscale("log")
    figure.axes[0].set_ylabel("regret (reward)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right", fontsize=8)
    with staged_file(path) as scratch:
        figure.savefig(scratch, dpi=120)


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the table, draw the figure and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    curves: dict[tuple[str, str], np.ndarray] = {}
    best, seconds = {}, {}
    for world in WORLDS:
        for name, explorer in EXPLORERS.items():
            runs = [run(world, explorer, seed) for seed in parts(f"{world}: {name}", range(trials))]
            curves[world, name] = np.stack([one[0] for one in runs])
            best[world] = runs[0][1]
            seconds[world, name] = float(np.median([one[2] for one in runs]))
    rows = [
        summarize(world, name, found, curves[world, REFERENCE], best[world], seconds[world, name])
        for (world, name), found in curves.items()
    ]
    slope, error = bonus_slope()
    said = (
        f"The variance of a pair, which its bonus is made of, falls with its visits by the power "
        f"{slope:.4f} (standard error {error:.4f}) from {VISITS[0]} to {VISITS[-1]:,} visits, on "
        "logs of a Garnet with random rewards."
    )
    draw(curves, folder / "exploration.png")
    print(write_table("exploration", rows, command=COMMAND, notes=(*NOTES, said), folder=folder))
