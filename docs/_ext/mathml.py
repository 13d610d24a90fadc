"""Formulas as MathML, which browsers show without a script and without a network.

Docutils has the translator; Sphinx has a place for renderers of formulas, and none that uses it.
"""

from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOG = logging.getLogger(__name__)


def _translate(node: nodes.Element, *, as_block: bool) -> str:
    formula = node.astext()
    try:
        return tex2mathml(formula, as_block=as_block)
    except MathError as error:
        _LOG.warning("the formula %r is not understood: %s", formula, error, location=node)
        return f"<code>{escape(formula)}</code>"


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_translate(node, as_block=False))
    raise nodes.SkipNode


def _display(writer: HTML5Translator, node: nodes.math_block) -> None:
    body = _translate(node, as_block=True)
    writer.body.append(f'<div class="math-display">{body}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer as ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
