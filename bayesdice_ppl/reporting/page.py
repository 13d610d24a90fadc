"""The page: what a report says, in one HTML file that needs nothing else.

Jinja escapes every text. The page has no script, and its own policy forbids a browser to load
anything.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING
from unicodedata import bidirectional

from bayesdice_ppl.reporting.content import Content
from bayesdice_ppl.reporting.names import shown

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("bayesdice_ppl.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,  # applied to every text, before it is escaped
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["apart"] = _apart
    return made


def _harmless(thing: object) -> object:
    from markupsafe import Markup

    # Markup is what a macro or `_apart` has made, of texts that were escaped.
    return shown(thing) if isinstance(thing, str) and not isinstance(thing, Markup) else thing


def _apart(sentence: str, names: tuple[str, ...]) -> Markup:
    """A sentence in which names that are read from the right do not turn their neighbors."""
    from markupsafe import Markup, escape

    pieces = re.split(f"({'|'.join(map(re.escape, names))})", sentence) if names else [sentence]
    isolated = Markup("<bdi>{}</bdi>")
    written = (shown(piece) for piece in pieces)
    return Markup().join(
        isolated.format(piece) if place % 2 else escape(piece)
        for place, piece in enumerate(written)
    )


def _from_the_right(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names with letters that are read from the right, the longest first."""
    found = [name for name in names if any(bidirectional(letter) in ("R", "AL") for letter in name)]
    return tuple(sorted(found, key=len, reverse=True))


def render(content: Content) -> str:
    """Write the page.

    Parameters
    ----------
    content
        What it says.

    Returns
    -------
    str
        HTML.
    """
    turned = _from_the_right(content.question.names)
    return _environment().get_template("page.html").render(content=content, turned=turned)
