"""The reference from the docstrings: ``.. public-names::`` and ``.. public-module::``.

Both write a table of names with their first sentences, and below it each name with its whole
docstring. What is public is what `__all__` has; so the reference follows the code.
"""

import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

import bayesdice_ppl as bd

LIBRARY = "bayesdice_ppl"
_LOG = logging.getLogger(__name__)


def names_of(module: types.ModuleType) -> list[str]:
    """Give the public names of a module: its `__all__`, or what it defines itself."""
    if hasattr(module, "__all__"):
        names = []
        for name in module.__all__:
            thing = getattr(module, name)
            inner = names_of(thing) if inspect.ismodule(thing) else None
            names += [name] if inner is None else [f"{name}.{part}" for part in inner]
        return names
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isroutine(thing))
        and thing.__module__ == module.__name__
    ]


def _first_names() -> dict[int, str]:
    """The id of each object at the top level -> its name there."""
    return {id(getattr(bd, name)): name for name in bd.__all__}


def _comment_on(name: str, constant: Any) -> list[str]:
    """The text below a constant's definition, wherever in the library that is."""
    for module in list(sys.modules.values()):
        if not module.__name__.startswith(LIBRARY) or vars(module).get(name) is not constant:
            continue
        try:
            found = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
        except PycodeError:
            continue
        if ("", name) in found:
            return found["", name]
    return []


def look_up(name: str) -> Any:
    """Give the object of a name, from the library on."""
    first, *rest = name.split(".")
    # Some packages, such as `selection`, are no names of the top level, and have public classes.
    public = first in bd.__all__
    thing: Any = getattr(bd, first) if public else importlib.import_module(f"{LIBRARY}.{first}")
    for part in rest:
        thing = getattr(thing, part)
    return thing


def document(name: str) -> Iterator[str]:
    """Give the lines that document one object, named from the library on."""
    thing = look_up(name)
    if inspect.isclass(thing):
        # What a class has from another one of the library is its own to whoever uses it.
        others = [kind for kind in thing.__mro__ if not kind.__module__.startswith(LIBRARY)]
        yield f".. autoclass:: {LIBRARY}.{name}"
        yield from (f"   :inherited-members: {', '.join(kind.__name__ for kind in others)}", "")
    elif inspect.isroutine(thing):
        yield from (f".. autofunction:: {LIBRARY}.{name}", "")
    else:
        yield from (f".. py:data:: {name}", f"   :module: {LIBRARY}", "")
        if isinstance(thing, str):
            yield from (f"   ``{thing!r}``", "")
        yield from (f"   {line}" for line in _comment_on(name.rpartition(".")[2], thing))
        yield ""


def first_lines(name: str) -> str:
    """Give the first paragraph of what documents an object."""
    thing = look_up(name)
    if inspect.isclass(thing) or inspect.isroutine(thing):
        text = inspect.getdoc(thing) or ""
    else:
        text = "\n".join(_comment_on(name.rpartition(".")[2], thing))
    return " ".join(text.strip().partition("\n\n")[0].split())


def table_and_entries(names: Iterable[str], elsewhere: Iterable[str] = ()) -> Iterator[str]:
    """Give a table of all names, and the entries of those that are not documented elsewhere."""
    names = list(names)
    yield from (f".. currentmodule:: {LIBRARY}", "")
    yield from (".. list-table::", "   :class: names", "   :widths: auto", "")
    for name in (*names, *elsewhere):
        yield f"   * - :py:obj:`{name}`"
        summary = first_lines(name)
        if not summary:
            _LOG.warning("%s.%s has no docstring", LIBRARY, name)
        yield f"     - {summary}"
    yield ""
    for name in names:
        yield from document(name)


class PublicNames(Directive):
    """Names of the top level, one a line."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Have the table and the entries read."""
        return self.read(table_and_entries(line.strip() for line in self.content if line.strip()))

    def read(self, lines: Iterable[str]) -> list[nodes.Node]:
        """Parse generated lines."""
        found = nodes.section()
        found.document = self.state.document
        self.state.nested_parse(StringList(list(lines), "public_names"), 0, found, match_titles=1)
        return found.children


class PublicModule(PublicNames):
    """A module of the top level: its docstring, and all of its public names."""

    has_content = False
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Have the docstring, the table and the entries read."""
        [place] = self.arguments
        module = getattr(bd, place)
        first = _first_names()
        names = names_of(module)
        things = {name: look_up(f"{place}.{name}") for name in names}
        there = [first[id(thing)] for thing in things.values() if id(thing) in first]
        here = [f"{place}.{name}" for name, thing in things.items() if id(thing) not in first]
        lines = [
            f".. py:module:: {LIBRARY}.{place}",
            "",
            *inspect.cleandoc(module.__doc__).splitlines(),
            "",
            *table_and_entries(here, there),
        ]
        return self.read(lines)


def skip_plumbing(
    _app: Sphinx, _what: str, _name: str, thing: Any, skip: bool, _options: Any
) -> bool | None:
    """Skip the fields of a named tuple, which Python documents as "Alias for field number 0".

    Their class's docstring says what they hold.
    """
    if (getattr(thing, "__doc__", None) or "").startswith("Alias for field number"):
        return True
    return True if skip else None


KEY = re.compile(r"~?[\w.]*Key\[[^\]]*\]( \| ~?[\w.]*UInt32\[[^\]]*\])+")


def plain_signature(
    _app: Sphinx,
    _what: str,
    _name: str,
    thing: Any,
    _options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Leave out of a signature what is no argument of anybody's.

    A dataclass writes ``<factory>`` for a default that is made anew, which no parser of Python
    reads. A protocol takes no arguments. A random key is one of three kinds of array.
    """
    if getattr(thing, "_is_protocol", False):
        return "", returns
    if signature is not None:
        signature = KEY.sub("PRNGKeyArray", signature.replace("<factory>", "..."))
    return signature, returns


def leave_as_code(
    _app: Sphinx, _env: Any, node: nodes.Element, content: nodes.TextElement
) -> nodes.TextElement | None:
    """Let a full name of ours be code, without a link, if it is no public one but exists."""
    module, *rest = str(node.get("reftarget", "")).split(".")
    if module != LIBRARY or not rest:
        return None
    for length in range(len(rest), -1, -1):
        try:
            thing = importlib.import_module(".".join((module, *rest[:length])))
        except ImportError:
            continue
        for part in rest[length:]:
            # A field without a default is an annotation of its class, and no attribute.
            field = inspect.get_annotations(thing).get(part) if inspect.isclass(thing) else None
            thing = getattr(thing, part, field)
        return None if thing is None else content
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both directives, and listen to autodoc."""
    app.add_directive("public-names", PublicNames)
    app.add_directive("public-module", PublicModule)
    app.connect("autodoc-skip-member", skip_plumbing)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("missing-reference", leave_as_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
