"""The results of `bayesdice select`: a belief with its ranking, or estimates in order.

All files are written to the folder, or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdice_ppl.cli.app import draw_seed
from bayesdice_ppl.cli.console import (
    make_console,
    show_estimates,
    show_fit,
    show_logs,
    show_selection,
)

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
    """A scratch folder whose files replace all results of an earlier run, by any method."""
    from bayesdice_ppl.outputs import staged_folder

    with staged_folder(output, overwrite=overwrite) as scratch:
        yield scratch
        for name in _ALL_FILES:
            if not (scratch / name).exists():
                (output / name).unlink(missing_ok=True)


def fit_belief(logs: Logs, policies: Policies, seed: int | None, **settings: Any) -> DataTree:
    """Fit BayesDICE's belief, and show the seed."""
    import jax

    from bayesdice_ppl.belief import annotate
    from bayesdice_ppl.fitting import fit_flat

    seed = draw_seed(seed)
    make_console().print(f"Seed {seed}.")
    with make_console(stderr=True).status(f"Fitting {len(policies)} candidates ..."):
        belief = fit_flat(logs, policies, rng_key=jax.random.key(seed), **settings)
    annotate(belief, seed=seed)
    return belief


def draw_belief(
    method: Baseline, logs: Logs, policies: Policies, seed: int | None, **question: Any
) -> DataTree:
    """Take a belief from another method's draws, and show the seed."""
    from bayesdice_ppl.belief import annotate

    found, used = _estimate(method, logs, policies, seed, **question)
    belief = found.belief()
    annotate(belief, seed=used)
    return belief


def write_selection(
    logs: Logs,
    make_belief: Callable[[], DataTree],
    score: Score,
    output: Path,
    *,
    overwrite: bool,
    source: dict[str, str],
    launch: dict[str, Any] | None = None,
) -> Selection:
    """Make a belief, rank it, and write belief, ranking and figure to a folder."""
    from bayesdice_ppl import plots
    from bayesdice_ppl.belief import BeliefView, save_belief
    from bayesdice_ppl.outputs import write_json
    from bayesdice_ppl.selection import select as select_ranking

    # Figures go to a file: no window, whatever the machine has.
    os.environ.setdefault("MPLBACKEND", "Agg")
    console = make_console()
    with _results(output, overwrite=overwrite) as scratch:
        show_logs(console, logs)
        belief = make_belief()
        show_fit(console, belief)
        if method := BeliefView(belief).method:
            console.print(f"The belief is from --method {method}, not from BayesDICE.")
        selection = select_ranking(belief, score, **(launch or {}))
        save_belief(belief, scratch / BELIEF_FILE)
        write_json(ranking_content(selection, belief, source), scratch / RANKING_FILE)
        what = (launch or {}).get("statistic", "value")
        figure = plots.forest(belief, order=selection.order, statistic=what)
        plots.save(figure, scratch / FIGURE_FILE)
    show_selection(console, selection)
    _show_files(output, BELIEF_FILE, RANKING_FILE, FIGURE_FILE)
    return selection


def write_estimates(
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
    """Order the candidates by a method's estimates, and write everything to a folder.

    Candidates that the log says too little about are marked, in the files by `thin`.

    Returns
    -------
    bool
        Whether the log supports every candidate.
    """
    from bayesdice_ppl import plots
    from bayesdice_ppl.baselines.support import warn_of_support
    from bayesdice_ppl.belief import versions
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
            "versions": versions(),
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
    for note in found.policies.notes:
        console.print(f"Note: {note}", markup=False)
    # A candidate that the log says nothing about has an estimate all the same, often 0.
    for warning in warnings:
        console.print(f"Warning: {warning['policy']}: {warning['reason']}", markup=False)
    if thin:
        from bayesdice_ppl.selection.certificate import listing

        few = [name for name in order if name in thin]
        console.print(
            f"The log says too little about {listing(few)}: this is no recommendation.",
            markup=False,
        )
    _show_files(output, RANKING_FILE, ESTIMATES_FILE, ESTIMATES_FIGURE_FILE)
    return not thin


def ranking_content(
    selection: Selection, belief: DataTree, source: dict[str, str]
) -> dict[str, Any]:
    """A ranking and what it was made from, for a JSON file."""
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


def _show_files(folder: Path, *names: str) -> None:
    make_console().print(f"Wrote {', '.join(names)} to {folder}.", markup=False, soft_wrap=True)


def _estimate(
    method: Baseline, logs: Logs, policies: Policies, seed: int | None, **question: Any
) -> tuple[Estimates, int]:
    """Estimate every candidate by a method; the estimates and the seed."""
    import jax

    from bayesdice_ppl.baselines import estimate_all

    used = draw_seed(seed)
    make_console().print(f"Seed {used}.")
    said = f"Estimating {len(policies)} candidates by {method.short} ..."
    with make_console(stderr=True).status(said):
        return estimate_all(method, logs, policies, rng_key=jax.random.key(used), **question), used


def _intervals(table: Any) -> list[tuple[float, float]] | None:
    if table["lower"].null_count():
        return None
    return list(table.select("lower", "upper").iter_rows())
