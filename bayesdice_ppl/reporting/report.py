"""From a belief and a score to a report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from bayesdice_ppl.belief import Which
from bayesdice_ppl.outputs import check_file, staged_file
from bayesdice_ppl.progress import stage
from bayesdice_ppl.reporting.content import put_together
from bayesdice_ppl.reporting.page import render
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection import Selection, select

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.logs import Logs


@final
@dataclass(frozen=True, eq=False, repr=False)
class ReportPage:
    """A report: one HTML page, which needs no network and no other file.

    Attributes
    ----------
    html : str
        The page.
    selection : Selection
        The ranking that it reports.
    """

    html: str
    selection: Selection

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page, all of it or nothing.

        Parameters
        ----------
        path : str or path-like
            The file, usually ending in ``.html``.
        overwrite : bool
            Whether a file that is there is replaced.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        OutputError
            The file exists and is not to be replaced, or cannot be written.
        """
        target = Path(path)
        check_file(target, overwrite=overwrite)
        with staged_file(target) as scratch:
            scratch.write_text(self.html, encoding="utf-8")
        return target

    def __repr__(self) -> str:
        return f"ReportPage({len(self.html):,} characters: {self.selection!r})"

    def _repr_html_(self) -> str:
        from markupsafe import escape

        # In a frame, so that its style does not reach the notebook.
        frame = "width: 100%; height: 80vh; border: 0"
        return f'<iframe srcdoc="{escape(self.html)}" style="{frame}"></iframe>'


def report(
    belief: DataTree,
    score: Score,
    *,
    logs: Logs | None = None,
    policies: Mapping[str, Any] | None = None,
    statistic: Which = "value",
    source: str = "belief.nc",
    **select_options: Any,
) -> ReportPage:
    """Report a belief on one page: the question, the answer, the ranking, and what to believe.

    The page has the numbers of `bayesdice_ppl.select` and `bayesdice_ppl.diagnose`, figures, every
    setting, how to get it again, and what to cite. It reads on a phone, and prints.

    Parameters
    ----------
    belief : xarray.DataTree
        As for `bayesdice_ppl.select`. What a belief does not have is left out, or said.
    score : Score
        From `bayesdice_ppl.scores`.
    logs, policies : Logs and mapping, optional
        Those that the belief was fitted on: adds the checks of `bayesdice_ppl.diagnose` that need
        them.
    statistic : str or mapping of str to float
        Which values are ranked, as for `bayesdice_ppl.select`.
    source : str
        Name of the belief's file, for the part that says how to get the report again.
    **select_options
        Handed to `bayesdice_ppl.select`: `limits`, `costs`, `must_include`, and so on.

    Returns
    -------
    ReportPage
        Its `save` writes it; a notebook shows it.

    Raises
    ------
    BeliefError, ScoreError, SettingsError
        As `bayesdice_ppl.select` does.

    Examples
    --------
    >>> page = bd.report(belief, bd.scores.regret(k=2))  # doctest: +SKIP
    >>> page.save("report.html")  # doctest: +SKIP
    """
    options = {"statistic": statistic, **select_options}
    selection = select(belief, score, **options)
    with stage("write the report"):
        content = put_together(
            belief, score, selection, options, source=source, logs=logs, policies=policies
        )
        return ReportPage(render(content), selection)
