"""Which episodes a belief rests on: Pareto's k of leaving each of them out."""

from typing import TYPE_CHECKING

from bayesdice_ppl.belief import read_values
from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.plots.layout import FONT, set_caption

if TYPE_CHECKING:
    import xarray as xr
    from arviz_plots import PlotCollection


def influence(
    belief: "xr.DataTree", *, policy: str | None = None, backend: str = "matplotlib"
) -> "PlotCollection":
    """Draw how far each episode is from being replaceable, by ArviZ's Pareto k.

    Parameters
    ----------
    belief : xarray.DataTree
        With the group `log_likelihood`, from `bayesdice_ppl.add_log_likelihood`.
    policy : str, optional
        The policy whose belief is meant; it may be left out if there is only one.
    backend : str
        What ArviZ draws with: one of its backends that is installed.

    Returns
    -------
    arviz_plots.PlotCollection
        From `arviz.plot_khat`. Past 0.7 the belief without the episode is another one.

    Raises
    ------
    BeliefError
        If the belief has no log likelihood, or not of this policy.
    """
    import warnings

    from arviz_plots import plot_khat
    from arviz_stats import loo

    if "log_likelihood" not in belief.children:
        raise BeliefError(
            "belief: expected the group log_likelihood, found none. Add it by "
            "bayesdice_ppl.add_log_likelihood."
        )
    known = read_values(belief).names
    if policy not in known and not (policy is None and len(known) == 1):
        raise BeliefError(f"policy: expected one of {listed(known)}, found {policy!r}.")
    name = known[0] if policy is None else policy
    with warnings.catch_warnings():
        # It warns of large k, which is what is drawn.
        warnings.simplefilter("ignore", UserWarning)
        found = loo(belief, pointwise=True)
    found.pareto_k = found.pareto_k.sel(policy=name)
    found.elpd_i = found.elpd_i.sel(policy=name)
    collection = plot_khat(found, backend=backend)
    if backend == "matplotlib":
        axes = collection.get_viz("plot")
        axes.axhline(found.good_k, color="0.5", linestyle="--", linewidth=1, zorder=-1)
        axes.set_xlabel(str(found.pareto_k.dims[0]), fontsize=FONT)
        axes.set_ylabel("Pareto k of leaving it out", fontsize=FONT)
        set_caption(axes, name, f"dashed: {found.good_k:.2g}, past which it cannot be left out")
    return collection
