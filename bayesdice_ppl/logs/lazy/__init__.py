"""Logs that stay where they are: a database, a folder of files, an engine that streams.

A table is asked for counts and sums. Its rows are not brought here, but for the first of them.
"""

from bayesdice_ppl.logs.lazy.reading import count_log
from bayesdice_ppl.logs.lazy.urls import is_url, open_url

__all__ = ["count_log", "is_url", "open_url"]
