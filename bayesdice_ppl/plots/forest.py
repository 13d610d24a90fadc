"""The intervals of every policy's value, one below the other."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Literal

from bayesdice_ppl.belief import (
    BeliefView,
    ValueDraws,
    Which,
    make_belief,
    read_moments,
    read_values,
)
from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.plots.layout import FONT, GAP, lay_out_rows, logged_caption, set_caption

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection


def forest(
    belief: "xr.DataTree",
    *,
    order: Sequence[str] | None = None,
    statistic: Which = "value",
    truth: Mapping[str, float] | None = None,
    backend: Literal["matplotlib", "bokeh"] = "matplotlib",
) -> "PlotCollection":
    """Draw the 50 % and 90 % intervals of every policy's value, best on top.

    The point is the mean, or the median of all where one of the values has no mean.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, dims chain (may be left out), draw, policy, in reward per step. The
        attribute `logged_value`, the value of the logging policy, is drawn as a dashed line. The
        attribute `method`, which beliefs of other methods have, is named above.
    order : sequence of str, optional
        The policies to show, best first, such as `Selection.order`; all of them by posterior
        mean, then name, if left out.
    statistic : str or mapping of str to float
        Which values, as for `bayesdice_ppl.select`. The line of the logging policy's value is drawn
        for the belief's own value.
    truth : mapping of str to float, optional
        Policy -> its true value, where it is known, as in a simulated world: drawn as a cross.
        Policies of which it is not known may be left out. Matplotlib alone draws it.
    backend : {"matplotlib", "bokeh"}
        What ArviZ draws with. Bokeh, where it is installed, keeps ArviZ's own layout.

    Returns
    -------
    arviz_plots.PlotCollection
        ArviZ's figure: `save` writes it to a file.

    Raises
    ------
    BeliefError
        If the belief lacks draws or names, or `logged_value` is not a finite number.
    SettingsError
        If `order` or `truth` names a policy that the belief does not have, `order` names one twice
        or is empty, a true value is not a finite number, or there is a truth for Bokeh.
    """
    from arviz_plots import add_lines, plot_forest

    draws = read_values(belief, statistic)
    order = in_order(draws, order)
    crosses = _true_values(truth, draws.names, backend)
    columns = [draws.names.index(name) for name in order]
    shown = make_belief(draws.values[..., columns], order)
    own = not isinstance(statistic, Mapping) and str(statistic) == "value"
    logged = BeliefView(belief).logged_value if own else None
    # One point for all rows: the median, if some of the values shown have no mean.
    means = read_moments(belief, draws.names).mean[columns] if own else ()
    point: Literal["mean", "median"] = "mean" if all(means) else "median"
    collection = plot_forest(
        shown,
        combined=True,
        sample_dims=["chain", "draw"],
        labels=["policy"],
        ci_kind="hdi",
        ci_probs=(0.5, 0.9),
        point_estimate=point,
        backend=backend,
        # A layout engine, which a style can turn on, would undo the positions set below.
        figure_kwargs={"layout": "none"} if backend == "matplotlib" else {},
        visuals={"ticklabels": False, "labels": {"horizontal_align": "right"}},
    )
    if logged is not None:
        collection.coords = {"column": "forest"}
        add_lines(collection, logged, visuals={"ref_line": {"width": 1}})
        collection.coords = None
    if backend == "matplotlib":
        _finish(collection, len(order), logged, BeliefView(belief).method, point)
        _mark(collection, {row: crosses[name] for row, name in enumerate(order) if name in crosses})
    return collection


def _true_values(
    truth: Mapping[str, float] | None, names: Sequence[str], backend: str
) -> dict[str, float]:
    """Check the true values; none if there are none."""
    if truth is None:
        return {}
    if backend != "matplotlib":
        raise SettingsError(f"truth: only matplotlib draws it, found backend={backend!r}.")
    for name, value in truth.items():
        if name not in names:
            raise SettingsError(
                f"truth: expected names in the belief ({listed(names)}), found {name!r}."
            )
        if not isfinite(float(value)):
            raise SettingsError(f"truth: expected a finite number for {name!r}, found {value!r}.")
    return {name: float(value) for name, value in truth.items()}


def _mark(collection: "PlotCollection", crosses: Mapping[int, float]) -> None:
    """Draw true values as crosses in their rows, counted from the top, and say so."""
    if not crosses:
        return
    axes = collection.get_target(None, {"column": "forest"})
    top = round(axes.get_ylim()[1] - 0.5)
    rows = [top - row for row in crosses]
    axes.plot(list(crosses.values()), rows, "kX", markersize=8, markeredgecolor="white", zorder=5)
    set_caption(axes, axes.get_title(loc="left"), "cross: true value")


def in_order(draws: ValueDraws, order: Sequence[str] | None) -> list[str]:
    """List the policies to show, best first.

    Parameters
    ----------
    draws : ValueDraws
        Of the policy values, with the names.
    order : sequence of str or None
        Which to show; all of them by posterior mean, then name, if None.

    Raises
    ------
    SettingsError
        If `order` names a policy that the belief does not have, names one twice, or is empty.
    """
    names = list(draws.names)
    if order is None:
        mean = draws.values.mean(axis=(0, 1))
        return sorted(names, key=lambda name: (-mean[names.index(name)], name))
    if isinstance(order, str) or not order:
        raise SettingsError(f"order: expected names of policies, best first, found {order!r}.")
    for name in order:
        if name not in names:
            raise SettingsError(
                f"order: expected names in the belief ({listed(names)}), found {name!r}."
            )
        if list(order).count(name) > 1:
            raise SettingsError(f"order: {name!r} is named twice.")
    return list(order)


def _finish(
    collection: "PlotCollection", n_rows: int, logged: float | None, method: str, point: str
) -> None:
    """Label the axis, and lay names and intervals out by their measured sizes."""
    names = collection.get_target(None, {"column": "labels"})
    intervals = collection.get_target(None, {"column": "forest"})
    names.set_axis_off()
    for text in names.texts:
        text.set_fontsize(FONT)
    what = f"{method}: " if method else ""
    set_caption(intervals, f"{what}{point} with 50 % and 90 % intervals", logged_caption(logged))
    width = lay_out_rows(collection.get_viz("figure"), names.texts, intervals, n_rows, names)
    names.set_xlim(-width, GAP)  # in inches: the names end at 0
