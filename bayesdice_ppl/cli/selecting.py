"""Commands about beliefs: fit one, rank it, or both at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesdice_ppl.cli.app import EXIT_NO_RECOMMENDATION, app, draw_seed, read_input
from bayesdice_ppl.cli.options import (
    ActionsOption,
    BaselineOption,
    BudgetOption,
    ClusterOption,
    ColumnsOption,
    CostsOption,
    DrawsOption,
    ExcludeOption,
    FolderOption,
    GammaOption,
    IncludeOption,
    InferenceOption,
    JointOption,
    LinkOption,
    LoggedOption,
    LogsArgument,
    OverwriteOption,
    PenaltyOption,
    PoliciesOption,
    PresetOption,
    RiskOption,
    ScoreOption,
    SeedOption,
    SmallSampleOption,
    StatisticOption,
    SurrogateOption,
    TerminationOption,
    TopOption,
    XiOption,
    make_launch,
    make_score,
    parse_statistics,
)

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.logs import Logs
    from bayesdice_ppl.policies import Policies
    from bayesdice_ppl.scores import Score
    from bayesdice_ppl.selection import Selection

BELIEF_FILE, RANKING_FILE, FIGURE_FILE = "belief.nc", "ranking.json", "forest.png"


@app.command()
def select(
    logs: LogsArgument,
    policies: PoliciesOption,
    gamma: GammaOption,
    output: FolderOption,
    score: ScoreOption = "regret",
    top: TopOption = 1,
    risk: RiskOption = None,
    baseline: BaselineOption = None,
    xi: XiOption = None,
    costs: CostsOption = None,
    budget: BudgetOption = None,
    must_include: IncludeOption = None,
    must_exclude: ExcludeOption = None,
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
    include_logged: LoggedOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Fit a belief and rank the candidates: writes belief.nc, ranking.json and forest.png."""
    from bayesdice_ppl.selection.rules import check_choice

    chosen = make_score(score, top, risk=risk, baseline=baseline, xi=xi)
    launch = make_launch(costs, budget, must_include, must_exclude)
    loaded, candidates = read_input(logs, policies, columns, actions)
    include_logged = include_logged or baseline == "logged"
    # Whatever can be refused is refused before the minutes of a fit.
    check_choice(chosen, (*candidates, *(["logged"] if include_logged else [])), **launch)
    selection = select_and_write(
        loaded,
        candidates,
        chosen,
        output,
        seed=seed,
        overwrite=overwrite,
        source={"logs": logs.name, "policies": policies.name},
        launch=launch,
        include_logged=include_logged,
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
    include_logged: LoggedOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Fit a belief and save it; rank it later under any score with `bayesdice rank`."""
    from bayesdice_ppl.belief import save_belief
    from bayesdice_ppl.console import make_console, show_fit, show_logs
    from bayesdice_ppl.outputs import check_file

    check_file(output, overwrite=overwrite, inputs=(logs, policies))
    loaded, candidates = read_input(logs, policies, columns, actions)
    console = make_console()
    show_logs(console, loaded)
    belief = _fit(
        loaded,
        candidates,
        seed,
        include_logged=include_logged,
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
    risk: RiskOption = None,
    baseline: BaselineOption = None,
    xi: XiOption = None,
    costs: CostsOption = None,
    budget: BudgetOption = None,
    must_include: IncludeOption = None,
    must_exclude: ExcludeOption = None,
    statistic: Annotated[
        str | None,
        typer.Option(help="Which of several statistics that the belief was fitted with."),
    ] = None,
    information: Annotated[
        bool,
        typer.Option("--information", help="Also say whose value would be worth knowing better."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the ranking, a .json file.")
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Rank a saved belief under another score, without fitting again."""
    from bayesdice_ppl.belief import load_belief
    from bayesdice_ppl.console import make_console, show_information, show_selection
    from bayesdice_ppl.outputs import check_file, write_json
    from bayesdice_ppl.selection import select as select_ranking
    from bayesdice_ppl.selection import value_of_information

    chosen = make_score(score, top, risk=risk, baseline=baseline, xi=xi)
    launch = make_launch(costs, budget, must_include, must_exclude)
    if output is not None:
        check_file(output, overwrite=overwrite, inputs=(belief,))
    loaded = load_belief(belief)
    which = statistic or "value"
    selection = select_ranking(loaded, chosen, statistic=which, **launch)
    content = _ranking(selection, loaded, {"belief": belief.name})
    worth = None
    if information:
        with make_console(stderr=True).status("What would knowing more be worth ..."):
            worth = value_of_information(loaded, chosen, statistic=which, **launch)
        content["information"] = {"perfect": worth.perfect, "table": worth.table.to_dicts()}
    console = make_console()
    show_selection(console, selection)
    if worth is not None:
        show_information(console, worth)
    if output is not None:
        write_json(content, output)
        console.print(f"Wrote {output}.", markup=False)
    raise typer.Exit(0 if selection.recommended else EXIT_NO_RECOMMENDATION)


def _fit(
    logs: Logs, policies: Policies, seed: int | None, *, include_logged: bool, **settings: Any
) -> DataTree:
    import jax

    from bayesdice_ppl.console import make_console
    from bayesdice_ppl.fitting import fit as fit_belief

    console = make_console()
    seed = draw_seed(seed)
    console.print(f"Seed {seed}.")
    with make_console(stderr=True).status(f"Fitting {len(policies)} candidates ..."):
        belief = fit_belief(
            logs,
            policies,
            rng_key=jax.random.key(seed),
            include_logged=include_logged,
            **settings,
        )
    belief.attrs["seed"] = seed
    return belief


def select_and_write(
    logs: Logs,
    policies: Policies,
    score: Score,
    output: Path,
    *,
    seed: int | None,
    overwrite: bool,
    source: dict[str, str],
    launch: dict[str, Any] | None = None,
    include_logged: bool = False,
    **settings: Any,
) -> Selection:
    """Fit, rank and write everything to a folder: all of it or nothing."""
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
        belief = _fit(logs, policies, seed, include_logged=include_logged, **settings)
        show_fit(console, belief)
        selection = select_ranking(belief, score, **(launch or {}))
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
