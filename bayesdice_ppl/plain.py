"""Text from elsewhere, made harmless where it meets a terminal or a shell.

A name of a column, a label, or a file may hold anything, also what would steer a terminal or run a
command when a proposed option is pasted.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

_KEPT = 60
_LONG = re.compile(r"\S{400,}")


def plain_text(text: Any) -> str:
    """Text in which control characters are written out; line feeds stay."""
    written = str(text)
    if written.isprintable():
        return written
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in written)


def shortened(text: str) -> str:
    """Text in which words of hundreds of letters are cut, as a damaged file has them."""
    return _LONG.sub(lambda word: f"{word[0][:_KEPT]}... ({len(word[0]):,} characters)", text)


def shell_word(text: str) -> str:
    """A word of a command line, in quotes where a shell would read more in it than a word."""
    return shlex.quote(plain_text(text))


def listed_word(name: str) -> str:
    """A name within a list of an option, in double quotes where it would be torn apart.

    `bayesdice_ppl.cli.texts` reads it: ``a``, but ``"a,b"`` and ``"a=b"``.
    """
    torn = set(name) & set(',="<>') or name != name.strip() or not name
    return '"' + name.replace('"', '""') + '"' if torn else name
