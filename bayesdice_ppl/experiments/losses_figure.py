"""Losses of rules against the size of the log: a row for each kind of log, a column a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL = (2.5, 1.9)
"""Width and height of a panel, in inches."""

_ASIDE = 0.06
"""How far rules of one log are drawn apart, in steps between sizes."""


def draw_losses(summary: pl.DataFrame, rules: Sequence[str], *, own: str, k: int) -> Figure:
    """Draw the mean loss of some rules at the four scores.

    Parameters
    ----------
    summary
        From `bayesdice_ppl.experiments.rule_comparison.compare`.
    rules
        Which rules to draw, in the order of the legend; those that are missing are left out.
    own
        The rule that is drawn in black.
    k
        The k of the scores.

    Returns
    -------
    matplotlib.figure.Figure
        Bars are plus and minus one standard error.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    here = summary.filter((pl.col("k") == k) & pl.col("rule").is_in(list(rules)))
    places = here.select("world", "behavior").unique(maintain_order=True).rows()
    judged = here["score"].unique(maintain_order=True).to_list()
    there = set(here["rule"].unique())
    styles = {rule: _style(rule == own, at) for at, rule in enumerate(rules) if rule in there}
    size = (_PANEL[0] * len(judged) + 2.0, _PANEL[1] * len(places) + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(places), len(judged), squeeze=False)
    for row, (world, behavior) in enumerate(places):
        of_place = here.filter((pl.col("world") == world) & (pl.col("behavior") == behavior))
        sizes = of_place["episodes"].unique().sort().to_list()
        for column, score in enumerate(judged):
            panel = axes[row, column]
            for place, (rule, style) in enumerate(styles.items()):
                line = of_place.filter((pl.col("score") == score) & (pl.col("rule") == rule))
                line = line.sort("episodes")
                # Side by side, or the last one drawn hides the others.
                aside = _ASIDE * (place - (len(styles) - 1) / 2.0)
                at = [sizes.index(one) + aside for one in line["episodes"]]
                panel.errorbar(at, line["loss"].to_list(), line["loss_se"].to_list(), **style)
            panel.set_xticks(range(len(sizes)), [str(one) for one in sizes])
            panel.set_xlim(-0.6, len(sizes) - 0.4)
            panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]), top=max(panel.get_ylim()[1], 1e-4))
            panel.tick_params(labelsize=7)
            if row == 0:
                panel.set_title(f"loss at {score}@{k}", fontsize=8)
        axes[row, 0].set_ylabel(f"{world}, alpha {behavior:g}", fontsize=8)
    for column in range(len(judged)):
        axes[-1, column].set_xlabel("episodes in the log", fontsize=8)
    handles = [Line2D([], [], label=rule, **_line(style)) for rule, style in styles.items()]
    figure.legend(handles=handles, loc="outside right upper", fontsize=7, frameon=False)
    return figure


def _style(own: bool, at: int) -> dict[str, Any]:
    return {
        "color": "black" if own else f"C{(at - 1) % 10}",
        "linewidth": 2.0 if own else 1.0,
        "linestyle": "-" if at <= 10 else "--",
        "marker": "o" if own else ".",
        "markersize": 4,
        "elinewidth": 0.8,
        "zorder": 3 if own else 2,
    }


def _line(style: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in style.items() if name != "elinewidth"}
