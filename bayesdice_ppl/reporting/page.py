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

_LONG = 60
"""Letters past which a name in a sentence is cut, and shown whole where it is pointed at."""


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
    """A sentence in which names that would turn their neighbors, or are long, stand alone."""
    from markupsafe import Markup, escape

    pieces = re.split(f"({'|'.join(map(re.escape, names))})", sentence) if names else [sentence]
    alone, cut = Markup("<bdi>{}</bdi>"), Markup('<bdi class="cut" title="{0}">{0}</bdi>')
    return Markup().join(
        (cut if len(piece) > _LONG else alone).format(shown(piece))
        if place % 2
        else escape(shown(piece))
        for place, piece in enumerate(pieces)
    )


def _standing_alone(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that are long, or have letters that are read from the right, the longest first."""
    found = [
        name
        for name in names
        if len(name) > _LONG or any(bidirectional(letter) in ("R", "AL") for letter in name)
    ]
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
    alone = _standing_alone(content.question.names)
    return _environment().get_template("page.html").render(content=content, alone=alone)
