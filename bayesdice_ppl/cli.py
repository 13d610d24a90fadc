"""The command line: a log file and a table of candidates in, a ranking with its belief out.

Every command is a few calls into the library. Exit codes: 0 done; 2 bad input, said in one
sentence; 3 done, but no recommendation, because the logs support a candidate too thinly.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesdice_ppl.cli_options import (
    MAX_SEED,
    ActionsOption,
    ClusterOption,
    ColumnsOption,
    DrawsOption,
    FolderOption,
    GammaOption,
    InferenceOption,
    JointOption,
    LinkOption,
    LogsArgument,
    OverwriteOption,
    PenaltyOption,
    PoliciesOption,
    PresetOption,
    ScoreOption,
    SeedOption,
    SmallSampleOption,
    StatisticOption,
    SurrogateOption,
    TerminationOption,
    TopOption,
    make_score,
    parse_actions,
    parse_columns,
    parse_statistics,
)
from bayesdice_ppl.errors import BayesDiceError, OutputError, SettingsError

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.logs import Logs
    from bayesdice_ppl.policies import Policies
    from bayesdice_ppl.scores import Score
    from bayesdice_ppl.selection import Selection

EXIT_BAD_INPUT = 2
EXIT_NO_RECOMMENDATION = 3
BELIEF_FILE, RANKING_FILE, FIGURE_FILE = "belief.nc", "ranking.json", "forest.png"

app = typer.Typer(
    name="bayesdice",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Choose among policies that you cannot try, from logs of one that ran.",
)


@app.command()
def select(
    logs: LogsArgument,
    policies: PoliciesOption,
    gamma: GammaOption,
    output: FolderOption,
    score: ScoreOption = "regret",
    top: TopOption = 1,
    columns: ColumnsOption = None,
    actions: ActionsOption = None,
    seed: SeedOption = None,
    inference: InferenceOption = "svi",
    penalty: PenaltyOption = None,
    surrogate: SurrogateOption = None,
    link: LinkOption = None,
    statistic: StatisticOption = None,
    on_termination: TerminationOption = "restart",
    cluster: ClusterOption = "transition",
    joint: JointOption = None,
    small_sample: SmallSampleOption = None,
    preset: PresetOption = None,
    draws: DrawsOption = 4000,
    overwrite: OverwriteOption = False,
) -> None:
    """Fit a belief and rank the candidates: writes belief.nc, ranking.json and forest.png."""
    from bayesdice_ppl.selection.exhaustive import check_effort

    chosen = make_score(score, top)
    loaded, candidates = _read(logs, policies, columns, actions)
    check_effort(chosen, len(candidates))
    selection = _select(
        loaded,
        candidates,
        chosen,
        output,
        seed=seed,
        overwrite=overwrite,
        source={"logs": logs.name, "policies": policies.name},
        gamma=gamma,
        inference=inference,
        penalty=penalty,
        surrogate=surrogate,
        link=link,
        statistic=parse_statistics(statistic),
        on_termination=on_termination,
        cluster=cluster,
        joint=joint,
        small_sample=small_sample,
        preset=preset,
        draws=draws,
    )
    raise typer.Exit(0 if selection.recommended else EXIT_NO_RECOMMENDATION)


@app.command()
def fit(
    logs: LogsArgument,
    policies: PoliciesOption,
    gamma: GammaOption,
    output: Annotated[Path, typer.Option("-o", "--output", help="The belief, a .nc file.")],
    columns: ColumnsOption = None,
    actions: ActionsOption = None,
    seed: SeedOption = None,
    inference: InferenceOption = "svi",
    penalty: PenaltyOption = None,
    surrogate: SurrogateOption = None,
    link: LinkOption = None,
    statistic: StatisticOption = None,
    on_termination: TerminationOption = "restart",
    cluster: ClusterOption = "transition",
    joint: JointOption = None,
    small_sample: SmallSampleOption = None,
    preset: PresetOption = None,
    draws: DrawsOption = 4000,
    overwrite: OverwriteOption = False,
) -> None:
    """Fit a belief and save it; rank it later under any score with `bayesdice rank`."""
    from bayesdice_ppl.belief import save_belief
    from bayesdice_ppl.console import make_console, show_fit, show_logs
    from bayesdice_ppl.outputs import check_file

    check_file(output, overwrite=overwrite, inputs=(logs, policies))
    loaded, candidates = _read(logs, policies, columns, actions)
    console = make_console()
    show_logs(console, loaded)
    belief = _fit(
        loaded,
        candidates,
        seed,
        gamma=gamma,
        inference=inference,
        penalty=penalty,
        surrogate=surrogate,
        link=link,
        statistic=parse_statistics(statistic),
        on_termination=on_termination,
        cluster=cluster,
        joint=joint,
        small_sample=small_sample,
        preset=preset,
        draws=draws,
    )
    show_fit(console, belief)
    save_belief(belief, output)
    console.print(f"Wrote {output}.", markup=False)


@app.command()
def rank(
    belief: Annotated[Path, typer.Argument(help="A belief, from bayesdice fit or select.")],
    score: ScoreOption = "regret",
    top: TopOption = 1,
    statistic: Annotated[
        str | None,
        typer.Option(help="Which of several statistics that the belief was fitted with."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the ranking, a .json file.")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Rank a saved belief under another score, without fitting again."""
    from bayesdice_ppl.belief import load_belief
    from bayesdice_ppl.console import make_console, show_selection
    from bayesdice_ppl.outputs import check_file, write_json
    from bayesdice_ppl.selection import select as select_ranking

    chosen = make_score(score, top)
    if output is not None:
        check_file(output, overwrite=overwrite, inputs=(belief,))
    loaded = load_belief(belief)
    selection = select_ranking(loaded, chosen, statistic=statistic or "value")
    show_selection(make_console(), selection)
    if output is not None:
        write_json(_ranking(selection, loaded, {"belief": belief.name}), output)
        make_console().print(f"Wrote {output}.", markup=False)
    raise typer.Exit(0 if selection.recommended else EXIT_NO_RECOMMENDATION)


@app.command()
def check(
    logs: LogsArgument,
    gamma: GammaOption,
    policies: Annotated[
        Path | None, typer.Option("--policies", "-p", help="Candidates to hold against the log.")
    ] = None,
    columns: ColumnsOption = None,
    actions: ActionsOption = None,
    on_termination: TerminationOption = "restart",
) -> None:
    """Validate a log (and candidates) and say what it supports, without fitting."""
    from bayesdice_ppl.console import make_console, show_logs, show_rows
    from bayesdice_ppl.diagnostics import logged_value, support_warnings
    from bayesdice_ppl.inference import make_settings
    from bayesdice_ppl.logs import read_logs, usable_rows
    from bayesdice_ppl.policies import read_policies
    from bayesdice_ppl.preparation import default_features, prepare_fit
    from bayesdice_ppl.prepared import measure_support

    make_settings(gamma=gamma, on_termination=on_termination)  # refused before anything is read
    console = make_console()
    loaded = read_logs(logs, columns=parse_columns(columns), actions=parse_actions(actions))
    settings = make_settings(
        gamma=gamma, on_termination=on_termination, features=default_features(loaded)
    )
    show_logs(console, loaded)
    rows = usable_rows(loaded, gamma)
    console.print(
        f"At gamma = {gamma:g}, {int(rows.mask.sum()):,} transitions can be used and "
        f"{rows.left_out:,} are left out (successor state not logged)."
    )
    earned = logged_value(loaded, gamma, restart=on_termination == "restart")
    console.print(
        f"The logging policy itself earned {earned.value:.4g} per step "
        f"(standard error {earned.standard_error:.2g})."
    )
    if policies is None:
        if loaded.vector_states or loaded.vector_actions:
            console.print(
                "The log can be used from Python, with candidates that are objects: "
                "bayesdice_ppl.fit chooses features for its vectors. The command line takes "
                "candidates as tables, and needs labels."
            )
        else:
            console.print("The log can be used.")
        return
    candidates = read_policies(policies)
    with console.status(f"Holding {len(candidates)} candidates against the log ..."):
        prepared = prepare_fit(loaded, candidates, settings)
        support = measure_support(prepared)
    names = prepared.names
    headings = [
        "policy",
        "unlogged steps",
        "unknown steps",
        "effective transitions",
        "top episode",
    ]
    cells = [
        [
            name,
            f"{support.moved_mass[j]:.2%}",
            f"{support.lost_mass[j]:.2%}",
            f"{support.effective_sample_size[j]:,.0f}",
            f"{support.influential_episode_share[j]:.0%}",
        ]
        for j, name in enumerate(names)
    ]
    show_rows(console, "What the log supports", headings, cells)
    warnings = support_warnings(names, support)
    for warning in warnings:
        console.print(f"Warning: {warning.sentence}", markup=False)
    if any(warning.abstain for warning in warnings):
        console.print("The log supports some candidate too thinly for a recommendation.")
        raise typer.Exit(EXIT_NO_RECOMMENDATION)
    console.print("The log and the candidates can be used.")


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
    _select(
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
    loaded, candidates = _read(logs, policies, None, None)
    _select(
        loaded,
        candidates,
        make_score("regret", 2),
        folder / "selection",
        seed=seed,
        overwrite=overwrite,
        source={"logs": logs.name, "policies": policies.name},
        gamma=gamma,
    )


def _read(
    logs: Path, policies: Path, columns: str | None, actions: str | None
) -> tuple[Logs, Policies]:
    from bayesdice_ppl.logs import read_logs
    from bayesdice_ppl.policies import read_policies

    loaded = read_logs(logs, columns=parse_columns(columns), actions=parse_actions(actions))
    return loaded, read_policies(policies)


def _draw_seed(seed: int | None) -> int:
    if seed is not None:
        return seed
    import secrets

    return secrets.randbits(31)


def _fit(logs: Logs, policies: Policies, seed: int | None, **settings: Any) -> DataTree:
    import jax

    from bayesdice_ppl.console import make_console
    from bayesdice_ppl.fitting import fit as fit_belief

    console = make_console()
    seed = _draw_seed(seed)
    console.print(f"Seed {seed}.")
    with make_console(stderr=True).status(f"Fitting {len(policies)} candidates ..."):
        belief = fit_belief(logs, policies, rng_key=jax.random.key(seed), **settings)
    belief.attrs["seed"] = seed
    return belief


def _select(
    logs: Logs,
    policies: Policies,
    score: Score,
    output: Path,
    *,
    seed: int | None,
    overwrite: bool,
    source: dict[str, str],
    **settings: Any,
) -> Selection:
    from bayesdice_ppl.belief import save_belief
    from bayesdice_ppl.console import make_console, show_fit, show_logs, show_selection
    from bayesdice_ppl.inference import make_settings
    from bayesdice_ppl.outputs import staged_folder, write_json
    from bayesdice_ppl.selection import select as select_ranking

    # Figures go to a file: no window, whatever the machine has.
    os.environ.setdefault("MPLBACKEND", "Agg")
    console = make_console()
    make_settings(**settings)
    with staged_folder(output, overwrite=overwrite) as scratch:
        show_logs(console, logs)
        belief = _fit(logs, policies, seed, **settings)
        show_fit(console, belief)
        selection = select_ranking(belief, score)
        save_belief(belief, scratch / BELIEF_FILE)
        write_json(_ranking(selection, belief, source), scratch / RANKING_FILE)
        from bayesdice_ppl import plots

        plots.save(plots.forest(belief, order=selection.order), scratch / FIGURE_FILE)
    show_selection(console, selection)
    written = ", ".join((BELIEF_FILE, RANKING_FILE, FIGURE_FILE))
    console.print(f"Wrote {written} to {output}.", markup=False, soft_wrap=True)
    return selection


def _ranking(selection: Selection, belief: DataTree, source: dict[str, str]) -> dict[str, Any]:
    from bayesdice_ppl.belief import belief_settings, read_json

    attrs = belief.attrs
    return {
        **selection.to_dict(),
        "source": source,
        "settings": belief_settings(belief),
        "versions": read_json(belief, "versions"),
        "seed": int(attrs["seed"]) if str(attrs.get("seed", "")).isdigit() else None,
    }


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
    seed = _draw_seed(seed)
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


def _stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command; bad input ends with exit code 2 and one sentence."""
    # A run that is told to stop unwinds, and so takes its scratch folder with it.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        app()
    except BayesDiceError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


if __name__ == "__main__":
    main()
