"""The expected loss of the best launch against how many may be launched."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesdice_ppl.belief import BeliefView, Which
from bayesdice_ppl.plots.layout import (
    BOTTOM,
    FONT,
    GRAY,
    SIDE,
    SMALL_FONT,
    TOP,
    place,
    set_caption,
)
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection.by_k import loss_by_k as table_by_k

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

X_LABEL = "k, how many go live"
CAPTION = "error bars: 2 Monte Carlo standard errors"
# Launches are written out up to so many names, each of at most so many letters.
_MOST_NAMES, _MOST_LETTERS = 5, 12
# Inches: the figure's height, the least and the most width of its axes, from one k to the next.
_HEIGHT, _WIDTH, _MOST_WIDTH, _STEP = 3.6, 3.6, 8.0, 0.45
_MOST_TICKS = 16
_LEFT = 0.9
"""Inches to the left of the axes."""

_AWAY = 4
"""Points from a launch to its names."""


def loss_by_k(
    belief: "xr.DataTree",
    make_score: Callable[[int], Score],
    ks: Iterable[int] | None = None,
    *,
    statistic: Which = "value",
    names: bool | None = None,
    **select_options: Any,
) -> "PlotCollection":
    """Draw the expected loss of the best launch against k, with its Monte Carlo error.

    Parameters
    ----------
    belief : xarray.DataTree
        As for `select`. An attribute `method`, as the beliefs of other methods have, is named
        above.
    make_score : callable
        Takes k and gives the score, such as `bayesdice_ppl.scores.regret`.
    ks : iterable of int, optional
        Which k; if left out, from the least that the score takes to 10, or to the number of
        policies.
    statistic : str
        As for `select`.
    names : bool, optional
        Whether the policies that are launched are written beside each point; if left out, where
        there are at most 5 and their names have at most 12 letters.
    **select_options
        Handed to `select`: `costs`, `budget`, `must_include`, and so on.

    Returns
    -------
    arviz_plots.PlotCollection
        With one plot. Error bars reach 2 standard errors up and down.

    Raises
    ------
    BeliefError, ScoreError, SettingsError
        As `bayesdice_ppl.selection.by_k.loss_by_k` does.
    """
    import xarray as xr
    from arviz_plots import PlotCollection

    table = table_by_k(belief, make_score, ks, statistic=statistic, **select_options)
    table = table.unique("k", keep="first").sort("k")
    k, loss, error = (
        table[column].to_numpy() for column in ("k", "expected_loss", "standard_error")
    )
    collection = PlotCollection.grid(
        xr.Dataset({"expected_loss": ("k", loss), "standard_error": ("k", error)}, {"k": k}),
        backend="matplotlib",
        # A layout engine, which a style can turn on, would undo the positions set below.
        figure_kwargs={"layout": "none"},
    )
    figure, axes = collection.get_viz("figure"), collection.get_viz("plot")
    axes.errorbar(k, loss, yerr=2 * error, fmt="o-", capsize=3)
    axes.set_xlabel(X_LABEL, fontsize=FONT)
    axes.set_ylabel(_loss_label(make_score(int(k[0])), table["score"][0], int(k[0])), fontsize=FONT)
    set_caption(axes, BeliefView(belief).method, CAPTION)
    axes.tick_params(labelsize=FONT - 1)
    launches = table["launch"].to_list()
    written = []
    if _legible(launches) if names is None else names:
        written = [
            axes.annotate(
                "\n".join(launch),
                (k[row], loss[row] + 2 * error[row]),
                xytext=(_AWAY, _AWAY),
                textcoords="offset points",
                fontsize=SMALL_FONT,
                color=GRAY,
                annotation_clip=False,  # else it has no size before the axes have their limits
                parse_math=False,  # a name may hold a dollar sign
            )
            for row, launch in enumerate(launches)
        ]
    _lay_out(figure, axes, k, written)
    return collection


def _loss_label(score: Score, name: str, k: int) -> str:
    """Name what the axis shows, with its unit."""
    label = name.removesuffix(f"@{k}") + "@k" if name.endswith(f"@{k}") else name
    expected = "expected " if score.averaged else ""
    return f"{expected}{label} {'(reward per step)' if score.per_step else 'loss'}"


def _legible(launches: list[list[str]]) -> bool:
    """Tell whether launches are short enough to be written beside their points."""
    return max(map(len, launches)) <= _MOST_NAMES and all(
        len(name) <= _MOST_LETTERS for launch in launches for name in launch
    )


def _lay_out(figure: "Figure", axes: "Axes", k: np.ndarray, written: "list[Annotation]") -> None:
    """Make room for the names beside each point, and above the highest."""
    from matplotlib.ticker import MaxNLocator

    sizes = [text.get_window_extent() for text in written]
    wide = max((size.width for size in sizes), default=0.0) / figure.dpi + 3 * _AWAY / 72
    closest = np.diff(k).min() if len(k) > 1 else 1
    step = max(_STEP, wide) / closest
    right = 1.0 if written else 0.5  # names stand beside the last point too
    width = float(np.clip(step * (k[-1] - k[0] + 0.5 + right), _WIDTH, _MOST_WIDTH))
    height = _HEIGHT - BOTTOM - TOP
    place(figure, (_LEFT + width + SIDE, _HEIGHT), {axes: (_LEFT, BOTTOM, width, height)})
    axes.set_xlim(k[0] - 0.5, k[-1] + right)
    if len(k) <= _MOST_TICKS:
        axes.set_xticks(k)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    low, high = axes.get_ylim()
    for text, size in zip(written, sizes, strict=True):
        above = size.height / figure.dpi + 2 * _AWAY / 72
        high = max(high, low + (text.xy[1] - low) / (1 - above / height))
    axes.set_ylim(low, high)
