"""Commands about beliefs: fit one, rank it, or both at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayesdice_ppl.cli.app import EXIT_NO_RECOMMENDATION, app, read_input
from bayesdice_ppl.cli.methods import (
    BAYESDICE,
    ByOption,
    LevelOption,
    MethodOption,
    SetOption,
    choose_method,
)
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
from bayesdice_ppl.cli.writing import (
    draw_and_write,
    estimate_and_write,
    fit_belief,
    ranking_content,
    select_and_write,
)


@app.command()
def select(
    context: typer.Context,
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
    method: MethodOption = BAYESDICE,
    setting: SetOption = None,
    by: ByOption = "value",
    level: LevelOption = 0.9,
    overwrite: OverwriteOption = False,
) -> None:
    """Fit a belief and rank the candidates: writes belief.nc, ranking.json and forest.png.

    Methods without a belief write ranking.json, estimates.csv and estimates.png.
    """
    from bayesdice_ppl.selection.rules import check_choice

    other = choose_method(context, method, setting, by)
    source = {"logs": logs.name, "policies": policies.name}
    if other is not None and other.gives != "draws":
        loaded, candidates = read_input(logs, policies, columns, actions)
        borne = estimate_and_write(
            other,
            loaded,
            candidates,
            output,
            by=by,
            seed=seed,
            overwrite=overwrite,
            source=source,
            gamma=gamma,
            level=level,
            on_termination=on_termination,
        )
        raise typer.Exit(0 if borne else EXIT_NO_RECOMMENDATION)
    chosen = make_score(score, top, risk=risk, baseline=baseline, xi=xi)
    launch = make_launch(costs, budget, must_include, must_exclude)
    loaded, candidates = read_input(logs, policies, columns, actions)
    include_logged = include_logged or baseline == "logged"
    # Whatever can be refused is refused before the minutes of a fit.
    known = (*candidates, *(["logged"] if include_logged and other is None else []))
    check_choice(chosen, known, **launch)
    if other is not None:
        selection = draw_and_write(
            other,
            loaded,
            candidates,
            chosen,
            output,
            seed=seed,
            overwrite=overwrite,
            source=source,
            launch=launch,
            gamma=gamma,
            on_termination=on_termination,
        )
        raise typer.Exit(0 if selection.recommended else EXIT_NO_RECOMMENDATION)
    selection = select_and_write(
        loaded,
        candidates,
        chosen,
        output,
        seed=seed,
        overwrite=overwrite,
        source=source,
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
    belief = fit_belief(
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
    content = ranking_content(selection, loaded, {"belief": belief.name})
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
