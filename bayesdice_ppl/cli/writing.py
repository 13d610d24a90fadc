"""What `bayesdice select` leaves behind: a belief with its ranking, or estimates in order.

Either is written to a folder as a whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdice_ppl.cli.app import draw_seed

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.baselines import Baseline, Estimates
    from bayesdice_ppl.logs import Logs
    from bayesdice_ppl.policies import Policies
    from bayesdice_ppl.scores import Score
    from bayesdice_ppl.selection import Selection

BELIEF_FILE, RANKING_FILE, FIGURE_FILE = "belief.nc", "ranking.json", "forest.png"
ESTIMATES_FILE, ESTIMATES_FIGURE_FILE = "estimates.csv", "estimates.png"
_ALL_FILES = (BELIEF_FILE, RANKING_FILE, FIGURE_FILE, ESTIMATES_FILE, ESTIMATES_FIGURE_FILE)


@contextmanager
def _results(output: Path, *, overwrite: bool) -> Iterator[Path]:
    """A scratch folder whose files replace all results of an earlier run, of whatever method."""
    from bayesdice_ppl.outputs import staged_folder

    with staged_folder(output, overwrite=overwrite) as scratch:
        yield scratch
        for name in _ALL_FILES:
            if not (scratch / name).exists():
                (output / name).unlink(missing_ok=True)


def fit_belief(
    logs: Logs, policies: Policies, seed: int | None, *, include_logged: bool, **settings: Any
) -> DataTree:
    """Fit BayesDICE's belief with the seed that is given, or with one that is drawn and printed."""
    import jax

    from bayesdice_ppl.belief import annotate
    from bayesdice_ppl.console import make_console
    from bayesdice_ppl.fitting import fit_flat

    console = make_console()
    seed = draw_seed(seed)
    console.print(f"Seed {seed}.")
    with make_console(stderr=True).status(f"Fitting {len(policies)} candidates ..."):
        belief = fit_flat(
            logs,
            policies,
            rng_key=jax.random.key(seed),
            include_logged=include_logged,
            **settings,
        )
    annotate(belief, seed=seed)
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
    from bayesdice_ppl.fitting import flat_settings

    flat_settings(**settings)
    return _rank_and_write(
        logs,
        lambda: fit_belief(logs, policies, seed, include_logged=include_logged, **settings),
        score,
        output,
        overwrite=overwrite,
        source=source,
        launch=launch,
    )


def draw_and_write(
    method: Baseline,
    logs: Logs,
    policies: Policies,
    score: Score,
    output: Path,
    *,
    seed: int | None,
    overwrite: bool,
    source: dict[str, str],
    launch: dict[str, Any],
    **question: Any,
) -> Selection:
    """Take a belief from another method's draws, rank and write as `select_and_write` does."""
    from bayesdice_ppl.belief import annotate

    def draw() -> DataTree:
        found, used = _estimate(method, logs, policies, seed, **question)
        belief = found.belief()
        annotate(belief, seed=used)
        return belief

    return _rank_and_write(
        logs, draw, score, output, overwrite=overwrite, source=source, launch=launch
    )


def estimate_and_write(
    method: Baseline,
    logs: Logs,
    policies: Policies,
    output: Path,
    *,
    by: str,
    seed: int | None,
    overwrite: bool,
    source: dict[str, str],
    **question: Any,
) -> bool:
    """Put the candidates in order by a method's estimates, and write everything to a folder.

    Candidates of which the log says next to nothing are marked in the table that is printed, and in
    the files by `thin`. Returns whether the log bears the order: False where there is one of them.
    """
    from bayesdice_ppl import plots
    from bayesdice_ppl.baselines.support import warn_of_support
    from bayesdice_ppl.belief import package_versions
    from bayesdice_ppl.console import make_console, show_estimates, show_logs
    from bayesdice_ppl.logs.logged_value import logged_value
    from bayesdice_ppl.outputs import write_json

    console = make_console()
    with _results(output, overwrite=overwrite) as scratch:
        show_logs(console, logs)
        found, used = _estimate(method, logs, policies, seed, **question)
        order = found.order(by)
        place = {name: row for row, name in enumerate(found.names)}
        warnings = warn_of_support(found)
        thin = {warning["policy"] for warning in warnings if warning["abstain"]}
        table = found.table[[place[name] for name in order]]
        table = table.with_columns(thin=table["policy"].is_in(list(thin)))
        restart = found.on_termination == "restart"
        logged = logged_value(logs, found.gamma, restart=restart)
        content = {
            "order": order,
            "by": by,
            "method": method.short,
            "table": table.to_dicts(),
            "logged_value": logged.value,
            "support_warnings": warnings,
            "source": source,
            "settings": found.settings,
            "versions": package_versions(),
            "seed": used,
        }
        write_json(content, scratch / RANKING_FILE)
        table.write_csv(scratch / ESTIMATES_FILE)
        intervals = _intervals(table)
        figure = plots.estimates(
            order,
            table["value"].to_list(),
            intervals,
            caption=method.short + (f", {100 * found.level:g}% intervals" if intervals else ""),
            logged=logged.value,
        )
        plots.save(figure, scratch / ESTIMATES_FIGURE_FILE)
    show_estimates(console, found, order, by, logged, thin)
    # A candidate that the log says nothing of has some value all the same, often 0.
    for warning in warnings:
        console.print(f"Warning: {warning['policy']}: {warning['reason']}", markup=False)
    if thin:
        few = [name for name in order if name in thin]
        console.print(
            f"The log says too little of {', '.join(few)}: this is no recommendation.", markup=False
        )
    written = ", ".join((RANKING_FILE, ESTIMATES_FILE, ESTIMATES_FIGURE_FILE))
    console.print(f"Wrote {written} to {output}.", markup=False, soft_wrap=True)
    return not thin


def ranking_content(
    selection: Selection, belief: DataTree, source: dict[str, str]
) -> dict[str, Any]:
    """A ranking with what it was made from, as JSON can hold it."""
    from bayesdice_ppl.belief import BeliefView

    view = BeliefView(belief)
    return {
        **selection.to_dict(),
        **({"method": view.method} if view.method else {}),
        "source": source,
        "settings": view.settings,
        "versions": view.versions,
        "seed": view.seed,
    }


def _rank_and_write(
    logs: Logs,
    believe: Callable[[], DataTree],
    score: Score,
    output: Path,
    *,
    overwrite: bool,
    source: dict[str, str],
    launch: dict[str, Any] | None,
) -> Selection:
    from bayesdice_ppl.belief import BeliefView, save_belief
    from bayesdice_ppl.console import make_console, show_fit, show_logs, show_selection
    from bayesdice_ppl.outputs import write_json
    from bayesdice_ppl.selection import select as select_ranking

    # Figures go to a file: no window, whatever the machine has.
    os.environ.setdefault("MPLBACKEND", "Agg")
    console = make_console()
    with _results(output, overwrite=overwrite) as scratch:
        show_logs(console, logs)
        belief = believe()
        show_fit(console, belief)
        if method := BeliefView(belief).method:
            console.print(f"The belief is of --method {method}, not BayesDICE's.")
        selection = select_ranking(belief, score, **(launch or {}))
        save_belief(belief, scratch / BELIEF_FILE)
        write_json(ranking_content(selection, belief, source), scratch / RANKING_FILE)
        from bayesdice_ppl import plots

        plots.save(plots.forest(belief, order=selection.order), scratch / FIGURE_FILE)
    show_selection(console, selection)
    written = ", ".join((BELIEF_FILE, RANKING_FILE, FIGURE_FILE))
    console.print(f"Wrote {written} to {output}.", markup=False, soft_wrap=True)
    return selection


def _estimate(
    method: Baseline, logs: Logs, policies: Policies, seed: int | None, **question: Any
) -> tuple[Estimates, int]:
    """Ask a method for every candidate; its answers and the seed."""
    import jax

    from bayesdice_ppl.baselines import estimate_all
    from bayesdice_ppl.console import make_console

    used = draw_seed(seed)
    make_console().print(f"Seed {used}.")
    said = f"Asking {method.short} for {len(policies)} candidates ..."
    with make_console(stderr=True).status(said):
        return estimate_all(method, logs, policies, rng_key=jax.random.key(used), **question), used


def _intervals(table: Any) -> list[tuple[float, float]] | None:
    if table["lower"].null_count():
        return None
    return list(table.select("lower", "upper").iter_rows())
