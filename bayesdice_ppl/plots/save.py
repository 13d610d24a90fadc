"""Write a figure to a file, all of it or nothing."""

import os
from typing import TYPE_CHECKING, Any

from bayesdice_ppl.errors import OutputError
from bayesdice_ppl.outputs import staged_file

if TYPE_CHECKING:
    from arviz_plots import PlotCollection
    from matplotlib.figure import Figure

# Dots per inch of formats made of dots.
_DPI = 150


def save(figure: "PlotCollection | Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, all of it or nothing.

    Parameters
    ----------
    figure : arviz_plots.PlotCollection or matplotlib.figure.Figure
        From this package, or any other of these.
    path : str or path-like
        Where to; the ending decides the format. A file that is there is replaced.

    Raises
    ------
    OutputError
        If the file cannot be written, or the format is not known.
    """
    # A Matplotlib figure has no backend of this kind, and a Bokeh figure takes no resolution.
    dotted = getattr(figure, "backend", "matplotlib") == "matplotlib"
    kwargs: dict[str, Any] = {"dpi": _DPI} if dotted else {}
    with staged_file(path) as scratch:
        try:
            figure.savefig(scratch, **kwargs)
        except ValueError as error:
            raise OutputError(f"{path}: the figure cannot be written: {error}") from error
