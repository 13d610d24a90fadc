"""Beliefs to report, and a plain reader of pages."""

from html.parser import HTMLParser

import numpy as np

from bayesdice_ppl.belief import make_belief

HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</title></svg>--><b>",
    "\"quoted\" & 'single' `tick`",
    "' onload='alert(1)",
    "&lt;b&gt; &amp; &#39;",
    "{{ 7 * 7 }} {% raw %} {# no #}",
    "javascript:alert(1)",
    "url(https://example.org/x.png) @import 'y'",
    "שלום עולם",
    "مرحبا 123",
    "😀🚀👩‍👩‍👧",
    "日本語の方策",
    "turned \u202egnp.exe",
    "bell \x07 and \x1b[31m red",
    "two\nlines and\ta tab",
    "x" * 5_000,
    "a very long name of many words " * 20,
    "$5 or $6^2$, a=3, b",
)
"""Names that would do something to a page that does not escape them."""


def belief_of(names, seed=0, n_draws=200, **known):
    """A belief of dependent normal values, the first of them the best on average."""
    rng = np.random.default_rng(seed)
    n = len(names)
    values = rng.normal(size=(n_draws, n)) + rng.normal(size=(n_draws, 1)) - 0.05 * np.arange(n)
    return make_belief(values, list(names), **known)


class Reader(HTMLParser):
    """What a browser would make of a page: elements, texts, links, styles."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes = [], []
        self.texts, self.styles, self.names = [], [], []
        self.open, self.rows = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attributes]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag == "bdi":
            self.names.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attributes]

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open[-1] == tag, (self.open[-3:], tag)
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.styles.append(data)
            return
        self.texts.append(data)
        if "bdi" in self.open:
            self.names[-1] += data
        if self.rows and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data

    @property
    def text(self):
        """All that is read, with one space for any."""
        return " ".join(" ".join(self.texts).split())
