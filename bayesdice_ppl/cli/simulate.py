"""The commands that make logs with known true values, and the demonstration."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bayesdice_ppl.cli.app import app, draw_seed
from bayesdice_ppl.cli.console import make_console, show_true_values
from bayesdice_ppl.cli.groups import MAX_SEED, DataOptions, Output, Overwrite, ScoreOptions, Seed
from bayesdice_ppl.cli.results import fit_belief, write_selection
from bayesdice_ppl.errors import OutputError, SettingsError
from bayesdice_ppl.outputs import check_file, check_folder, staged_file


class Play(NamedTuple):
    """What to play: the world, the policies' alphas, and the size of the log."""

    world: str
    alpha: float
    episodes: int
    steps: int
    candidates: tuple[float, ...] = (0.75, 0.8, 0.85, 0.9, 0.95)


@app.command()
def simulate(
    world: Annotated[
        str,
        typer.Argument(
            help="bandit, contextualbandit, frozenlake, garnet, riverswim, taxi, cartpole or "
            "reacher."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The log, a .parquet file.")],
    candidates: Annotated[
        Path | None,
        typer.Option(help="Also write the candidates of a tabular world, a .parquet file."),
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="The logging policy, from worst (0) to best (1).")
    ] = 0.5,
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Steps in each episode.")] = 100,
    seed: Seed = None,
    overwrite: Overwrite = False,
) -> None:
    """Simulate a log and candidates with known true values, for `bayesdice select`."""
    for path in (output, candidates):
        if path is None:
            continue
        if path.suffix != ".parquet":
            raise SettingsError(f"{path}: expected a file name that ends in .parquet.")
        check_file(path, overwrite=overwrite)
    if candidates is not None and output.resolve() == candidates.resolve():
        raise SettingsError(f"{output}: expected two different files for log and candidates.")
    gamma = _simulate(Play(world, alpha, episodes, steps), seed, output, candidates)
    if candidates is not None:
        make_console().print(
            f"Next: bayesdice select {output} --policies {candidates} --gamma {gamma:g} "
            "--score regret -k 2 -o out",
            markup=False,
            soft_wrap=True,
        )


@app.command()
def demo(
    output: Output = Path("demo-output"),
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed.")] = 1,
    overwrite: Overwrite = False,
) -> None:
    """Select on real clicks (Open Bandit sample) and on a simulated FrozenLake log."""
    from bayesdice_ppl.datasets import open_bandit

    console = make_console()
    score = ScoreOptions(score="regret", top=2).make()
    check_folder(output, overwrite=overwrite)
    console.rule("Open Bandit: real clicks on a fashion store's front page, gamma = 0")
    real = open_bandit()
    write_selection(
        real.logs,
        partial(fit_belief, real.logs, real.policies, seed, gamma=0.0),
        score,
        output / "open_bandit",
        overwrite=overwrite,
        source={"logs": "Open Bandit sample", "policies": "Open Bandit sample"},
    )
    console.rule("FrozenLake: a simulated log with known true values, gamma = 0.99")
    folder = output / "frozen_lake"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise OutputError(f"{folder}: cannot be made: {cause.strerror}.") from cause
    data = DataOptions(logs=folder / "logs.parquet", policies=folder / "candidates.parquet")
    play = Play("frozenlake", 0.5, 50, 100, (0.0, 0.25, 0.75, 0.9, 1.0))
    gamma = _simulate(play, seed, data.logs, data.policies)
    logs, policies = data.read()
    write_selection(
        logs,
        partial(fit_belief, logs, policies, seed, gamma=gamma),
        score,
        folder / "selection",
        overwrite=overwrite,
        source=data.source,
    )


def _simulate(play: Play, seed: int | None, logs_path: Path, candidates_path: Path | None) -> float:
    """Write the log (and the candidates), show the true values, and give the usual gamma."""
    import jax

    from bayesdice_ppl.simulation import known_values, make_world
    from bayesdice_ppl.simulation import simulate as simulate_logs

    console = make_console()
    made = make_world(play.world, alpha=play.alpha, candidates=play.candidates)
    frames = {}
    if candidates_path is not None:
        if not made.candidates.tabular:
            raise SettingsError(
                f"--candidates: the policies of {play.world} are functions of vectors, which no "
                "table holds. Leave it out, and make them in Python with "
                "bayesdice_ppl.simulation.make_world."
            )
        frames[candidates_path] = made.candidates.to_dataframe()
    seed = draw_seed(seed)
    console.print(f"Seed {seed}.")
    key = jax.random.key(seed)
    with console.status(f"Playing {play.episodes:,} episodes ..."):
        logs = simulate_logs(made.env, made.behavior, play.episodes, play.steps, rng_key=key)
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
