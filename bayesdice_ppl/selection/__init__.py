"""Selection: the ranking with the lowest expected loss under a belief, and the proof of it."""

from bayesdice_ppl.selection.selection import Certificate, Selection, select

__all__ = ["Certificate", "Selection", "select"]
