"""Reports: a belief and its ranking on one HTML page, without network.

`content` has what the page says, as plain tuples, put together from a file for each part; `page`
writes the HTML.
"""

from bayesdice_ppl.reporting.content import Content, put_together
from bayesdice_ppl.reporting.page import render
from bayesdice_ppl.reporting.report import ReportPage, report

__all__ = ["Content", "ReportPage", "put_together", "render", "report"]
