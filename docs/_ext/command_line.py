"""The command line's reference, from the commands themselves: ``.. command-line::``.

Typer writes the same texts when a command is asked for ``--help``.
"""

from collections.abc import Iterator

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

NO_HEADING = "Options"


def describe(name: str, command: typer.core.TyperCommand) -> Iterator[str]:
    """Give the lines of a section on one command, in reStructuredText."""
    heading = f"bayesdice {name}"
    yield from (f".. _command-{name}:", "", heading, "-" * len(heading), "")
    context = typer.Context(command, info_name=heading)
    yield from (".. code-block:: text", "", f"   {command.get_usage(context)[7:]}", "")
    yield from (*_literal(command.help or "").splitlines(), "")
    groups: dict[str, list[typer.core.TyperArgument | typer.core.TyperOption]] = {}
    for parameter in command.params:
        title = "Arguments" if isinstance(parameter, typer.core.TyperArgument) else None
        title = title or parameter.rich_help_panel or NO_HEADING
        groups.setdefault(title, []).append(parameter)
    for title, parameters in groups.items():
        yield from (f".. rubric:: {title}", "")
        yield from (".. list-table::", "   :class: options", "   :widths: 30 70", "")
        for parameter in parameters:
            yield f"   * - {_spelling(parameter)}"
            yield f"     - {_meaning(parameter)}"
        yield ""


def _literal(text: str) -> str:
    """Turn the single backticks of a help text into code."""
    return text.replace("`", "``").replace("*", r"\*")


def _spelling(parameter: typer.core.TyperArgument | typer.core.TyperOption) -> str:
    if isinstance(parameter, typer.core.TyperArgument):
        return f"``{parameter.name}``"
    names = sorted((*parameter.opts, *parameter.secondary_opts), key=len, reverse=True)
    return ", ".join(f"``{name}``" for name in names)


def _meaning(parameter: typer.core.TyperArgument | typer.core.TyperOption) -> str:
    text = _literal(parameter.help or "")
    low, high = (getattr(parameter, name, None) for name in ("min", "max"))
    if low is not None and high is not None:
        text = f"{text} From {low:,} to {high:,}."
    if parameter.required:
        return f"{text} **Required.**"
    if parameter.default in (None, False, ()) or "efault" in text:
        return text
    return f"{text} Default: ``{parameter.default}``."


class CommandLine(Directive):
    """A section for each command."""

    def run(self) -> list[nodes.Node]:
        """Write the sections and have them read."""
        from bayesdice_ppl.cli import app

        group = typer.main.get_command(app)
        lines = [line for pair in group.commands.items() for line in describe(*pair)]
        found = nodes.section()
        found.document = self.state.document
        self.state.nested_parse(StringList(lines, "command_line"), 0, found, match_titles=True)
        return found.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
