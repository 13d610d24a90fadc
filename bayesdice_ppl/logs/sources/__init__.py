"""Logs of other tools as tables under our names: one file a tool, and one way into `Logs`.

A reader knows what a tool means by its columns, and makes a table of them. It says what it took as
what, and what it left out. `Logs.from_dataframe` then validates that table as it does any other.
"""

from bayesdice_ppl.logs.sources.source import Source, SourceTable

__all__ = ["Source", "SourceTable"]
