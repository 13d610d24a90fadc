"""Turn a dataclass into options of the command line, so that each default stands once.

A command takes dataclasses as parameters, and `with_options` gives it one option for each field.
The field has the type and the default, the class's docstring has the help, and its first line is
the heading in the help.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each field of the dataclasses that it takes.

    Parameters
    ----------
    command
        A function whose parameters are dataclasses, or anything that Typer reads.

    Returns
    -------
    callable
        What ``app.command()`` takes. It makes the dataclasses and calls ``command``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)
    }
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _options(hints[parameter.name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=kind))

    @wraps(command)
    def spelled_out(**given: Any) -> None:
        made = {
            name: kind(**{field: given.pop(field) for field in field_names(kind)})
            for name, kind in groups.items()
        }
        command(**made, **given)

    del spelled_out.__dict__["__wrapped__"]  # whose signature Typer would read
    spelled_out.__annotations__ = {each.name: each.annotation for each in parameters}
    spelled_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spelled_out


def typed_options(context: typer.Context, names: Iterable[str]) -> list[str]:
    """The options among these that were typed, as they are written."""
    written = {each.name: max(each.opts, key=len) for each in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return [
        written[name]
        for name, source in sources.items()
        if source is not None and not source.name.startswith("DEFAULT")
    ]


def field_names(kind: Any) -> tuple[str, ...]:
    """Names of the options that a dataclass becomes."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _options(kind: type) -> Iterator[inspect.Parameter]:
    """The fields of a dataclass as Typer's parameters."""
    hints, texts = get_type_hints(kind, include_extras=True), field_help(kind)
    heading = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0].rstrip(".")
    for field in dataclasses.fields(kind):
        hint, info = hints[field.name], typer.Option()
        if get_origin(hint) is Annotated:
            hint, given = get_args(hint)
            info = copy(given)
        info.help = texts[field.name]
        if isinstance(info, OptionInfo):
            info.rich_help_panel = heading
        required = field.default is dataclasses.MISSING
        default = inspect.Parameter.empty if required else field.default
        if default is None or default is False:
            info.show_default = False
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[hint, info],
        )


def field_help(kind: type) -> dict[str, str]:
    """What the NumPy docstrings of a dataclass and its bases say of each field, in one line."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        doc = inspect.cleandoc(base.__doc__ or "").partition("Attributes\n----------\n")[2]
        for name, text in re.findall(r"^(\w+)\n((?: .*\n?)+)", doc, flags=re.MULTILINE):
            texts[name] = " ".join(text.split()).replace("`", "")
    return texts
