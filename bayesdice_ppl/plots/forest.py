"""The intervals of every policy's value, one below the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from bayesdice_ppl.belief import BeliefView, ValueDraws, make_belief, read_values
from bayesdice_ppl.errors import SettingsError

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection

X_LABEL = "value (reward per step)"
# Inches: a row, the margins above and below the rows and at the sides, the intervals, the gap
# between names and intervals. Points: names, and the caption above.
_ROW, _TOP, _BOTTOM, _SIDE, _INTERVALS, _GAP = 0.28, 0.35, 0.6, 0.2, 5.0, 0.15
_FONT, _CAPTION_FONT = 10, 8


def forest(
    belief: "xr.DataTree",
    *,
    order: Sequence[str] | None = None,
    backend: Literal["matplotlib", "bokeh"] = "matplotlib",
) -> "PlotCollection":
    """Draw the 50 % and 90 % intervals of every policy's value, best on top.

    Parameters
    ----------
    belief : xarray.DataTree
        With `posterior/value`, dims chain (may be left out), draw, policy, in reward per step. If
        it has an attribute `logged_value`, the value of the policy that logged, a dashed line is
        drawn there; an attribute `method`, as the beliefs of other methods have, is named above.
    order : sequence of str, optional
        The policies to show, best first, such as `Selection.order`; all of them by posterior
        mean, then name, if left out.
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
        If `order` names a policy that the belief does not have, names one twice, or is empty.
    """
    from arviz_plots import add_lines, plot_forest

    draws = read_values(belief)
    order = in_order(draws, order)
    columns = [draws.names.index(name) for name in order]
    shown = make_belief(draws.values[..., columns], order)
    logged = BeliefView(belief).logged_value
    collection = plot_forest(
        shown,
        combined=True,
        sample_dims=["chain", "draw"],
        labels=["policy"],
        ci_kind="hdi",
        ci_probs=(0.5, 0.9),
        point_estimate="mean",
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
        _finish(collection, len(order), logged, BeliefView(belief).method)
    return collection


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
        raise SettingsError(f"order must list policies by name, best first, got {order!r}")
    for name in order:
        if name not in names:
            raise SettingsError(
                f"order names {name!r}, which is not in the belief: it has {', '.join(names)}"
            )
        if list(order).count(name) > 1:
            raise SettingsError(f"order names {name!r} twice")
    return list(order)


def _finish(collection: "PlotCollection", n_rows: int, logged: float | None, method: str) -> None:
    """Label the axis, and lay names and intervals out by their measured sizes."""
    from matplotlib.ticker import MaxNLocator

    figure = collection.get_viz("figure")
    names = collection.get_target(None, {"column": "labels"})
    intervals = collection.get_target(None, {"column": "forest"})
    names.set_axis_off()
    names.set_ylim(-0.5, n_rows - 0.5)  # shared with the intervals
    for row in range(n_rows - 2, -1, -2):
        # Every other row is shaded, across both axes, to lead the eye from name to interval.
        for axes in (names, intervals):
            axes.axhspan(row - 0.5, row + 0.5, color="0.95", linewidth=0, zorder=-2)
    intervals.xaxis.set_major_locator(MaxNLocator(nbins=6))
    intervals.set_xlabel(X_LABEL, fontsize=_FONT)
    intervals.tick_params(axis="x", labelsize=_FONT - 1)
    caption = f"{method}: " if method else ""
    caption += "mean with 50 % and 90 % intervals"
    if logged is not None:
        caption += f"; dashed: logged value, {logged:.4g}"
    intervals.set_title(caption, loc="left", fontsize=_CAPTION_FONT, color="0.35", parse_math=False)
    for text in names.texts:
        text.set_parse_math(False)  # a name may hold a dollar sign
        text.set_fontsize(_FONT)
    width = max(text.get_window_extent().width for text in names.texts) / figure.dpi
    names.set_xlim(-width, _GAP)  # in inches: the names end at 0
    total_width = _SIDE + width + _GAP + _INTERVALS + _SIDE
    total_height = _BOTTOM + n_rows * _ROW + _TOP
    figure.set_size_inches(total_width, total_height)
    bottom, height = _BOTTOM / total_height, n_rows * _ROW / total_height
    names.set_position([_SIDE / total_width, bottom, (width + _GAP) / total_width, height])
    left = (_SIDE + width + _GAP) / total_width
    intervals.set_position([left, bottom, _INTERVALS / total_width, height])
