"""Commands that make logs with known true values, and the demonstration."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from bayesdice_ppl.cli.app import app, draw_seed, read_input
from bayesdice_ppl.cli.options import (
    MAX_SEED,
    FolderOption,
    OverwriteOption,
    SeedOption,
    make_score,
)
from bayesdice_ppl.cli.writing import select_and_write
from bayesdice_ppl.errors import OutputError, SettingsError


@app.command()
def simulate(
    world: Annotated[
        str,
        typer.Argument(
            help="bandit, contextualbandit, frozenlake, garnet, riverswim, taxi; cartpole, reacher."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The logs, a .parquet file.")],
    candidates: Annotated[
        Path | None,
        typer.Option("--candidates", help="The candidates of a tabular world, a .parquet file."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Index of the logging policy, in [0, 1].")] = 0.5,
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Steps per episode.")] = 100,
    seed: SeedOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Simulate logs and candidates with known true values, for `bayesdice select`."""
    from bayesdice_ppl.console import make_console
    from bayesdice_ppl.outputs import check_file

    for path in (output, candidates):
        if path is None:
            continue
        if path.suffix != ".parquet":
            raise SettingsError(f"{path}: expected a name ending in .parquet.")
        check_file(path, overwrite=overwrite)
    if candidates is not None and output.resolve() == candidates.resolve():
        raise SettingsError(f"{output}: logs and candidates need different files.")
    console = make_console()
    gamma = _simulate(console, world, alpha, episodes, steps, seed, output, candidates)
    if candidates is not None:
        console.print(
            f"Next: bayesdice select {output} --policies {candidates} --gamma {gamma:g} "
            "--score regret -k 2 -o out",
            markup=False,
            soft_wrap=True,
        )


@app.command()
def demo(
    output: FolderOption = Path("demo-output"),
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed.")] = 1,
    overwrite: OverwriteOption = False,
) -> None:
    """Select on real clicks (Open Bandit sample) and on a simulated FrozenLake log."""
    from bayesdice_ppl.console import make_console
    from bayesdice_ppl.datasets import open_bandit
    from bayesdice_ppl.outputs import check_folder

    console = make_console()
    check_folder(output, overwrite=overwrite)
    console.rule("Open Bandit: real clicks on a fashion store's front page, gamma = 0")
    real = open_bandit()
    select_and_write(
        real.logs,
        real.policies,
        make_score("regret", 2),
        output / "open_bandit",
        seed=seed,
        overwrite=overwrite,
        source={"logs": "Open Bandit sample", "policies": "Open Bandit sample"},
        gamma=0.0,
    )
    console.rule("FrozenLake: a simulated log with known true values, gamma = 0.99")
    folder = output / "frozen_lake"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise OutputError(f"{folder}: cannot be made: {cause.strerror}") from cause
    logs, policies = folder / "logs.parquet", folder / "candidates.parquet"
    gamma = _simulate(
        console, "frozenlake", 0.5, 50, 100, seed, logs, policies, (0.0, 0.25, 0.75, 0.9, 1.0)
    )
    loaded, candidates = read_input(logs, policies, None, None)
    select_and_write(
        loaded,
        candidates,
        make_score("regret", 2),
        folder / "selection",
        seed=seed,
        overwrite=overwrite,
        source={"logs": logs.name, "policies": policies.name},
        gamma=gamma,
    )


def _simulate(
    console: Any,
    world: str,
    alpha: float,
    episodes: int,
    steps: int,
    seed: int | None,
    logs_path: Path,
    candidates_path: Path | None,
    candidates: tuple[float, ...] = (0.75, 0.8, 0.85, 0.9, 0.95),
) -> float:
    import jax

    from bayesdice_ppl.console import show_true_values
    from bayesdice_ppl.outputs import staged_file
    from bayesdice_ppl.simulation import known_values, make_world
    from bayesdice_ppl.simulation import simulate as simulate_logs

    made = make_world(world, alpha=alpha, candidates=candidates)
    frames = {}
    if candidates_path is not None:
        if not made.candidates.tabular:
            raise SettingsError(
                f"--candidates: the policies of {world} are functions of vectors, which no table "
                "holds; leave it out, and make them in Python with "
                "bayesdice_ppl.simulation.make_world."
            )
        frames[candidates_path] = made.candidates.to_dataframe()
    seed = draw_seed(seed)
    console.print(f"Seed {seed}.")
    key = jax.random.key(seed)
    with console.status(f"Playing {episodes:,} episodes ..."):
        logs = simulate_logs(made.env, made.behavior, episodes, steps, rng_key=key)
    frames[logs_path] = logs.to_dataframe()
    with console.status("Finding the true values ..."):
        values = known_values(made, rng_key=jax.random.fold_in(key, 1))
    # Both files or none, and only when all else is done.
    with ExitStack() as staged:
        for path, frame in frames.items():
            frame.write_parquet(staged.enter_context(staged_file(path)))
    show_true_values(console, made, values)
    written = f"Wrote {logs.n_transitions:,} transitions to {logs_path}"
    if candidates_path is not None:
        written += f" and {len(made.candidates)} candidates to {candidates_path}"
    console.print(f"{written}.", markup=False, soft_wrap=True)
    return float(made.gamma_hint)
