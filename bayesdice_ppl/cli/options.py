"""Turn a dataclass of settings into options of the command line, so that a default stands once.

A command takes dataclasses as parameters, and `with_options` gives it one option for each field.
The field says the type and the default, and the class's docstring says the help. A user's own
classes need know nothing of this: an option that is not typed is not handed on, and the dataclass
fills in its default.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable
from copy import copy
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, final, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

_READABLE = (str, int, float, bool, Path)
"""Types that Typer reads. Anything else is read as a text, which the dataclass reads further."""


@final
class Only:
    """The fields of a dataclass that a command offers: ``Annotated[Settings, Only("lam", "xi")]``.

    The other fields keep their defaults.
    """

    def __init__(self, *names: str) -> None:
        self.names = names


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each field of the dataclasses that it takes.

    Parameters
    ----------
    command
        A function whose parameters are dataclasses, or anything that Typer reads. A dataclass that
        may be None is None unless one of its options is typed.

    Returns
    -------
    callable
        What ``app.command()`` takes. It builds the dataclasses and calls ``command``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, _Group] = {}
    parameters = [_parameter("context", typer.Context)]
    for parameter in inspect.signature(command).parameters.values():
        name, kind = parameter.name, hints[parameter.name]
        group = _read_group(kind)
        if group is not None:
            groups[name] = group
            parameters += [_option(group, field) for field in group.fields]
        elif name != "context":
            parameters.append(_parameter(name, kind, parameter.default))

    @wraps(command)
    def spelled_out(context: typer.Context, **given: Any) -> None:
        made = {}
        for name, group in groups.items():
            options = {field.name: given.pop(field.name) for field in group.fields}
            typed = {field: options[field] for field in typed_options(context, options)}
            made[name] = group.kind(**typed) if typed or not group.optional else None
        if "context" in hints:
            made["context"] = context
        command(**made, **given)

    spelled_out.__annotations__ = {each.name: each.annotation for each in parameters}
    spelled_out.__dict__.pop("__wrapped__")
    spelled_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spelled_out


def typed_options(context: typer.Context, names: Iterable[str]) -> dict[str, str]:
    """Which of these options were typed, each with the name that it is written by."""
    written = {each.name: max(each.opts, key=len) for each in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return {
        name: written[name]
        for name, source in sources.items()
        if source is not None and not source.name.startswith("DEFAULT")
    }


def field_names(kind: type) -> tuple[str, ...]:
    """Names of the options that a dataclass becomes."""
    return tuple(field.name for field in dataclasses.fields(kind))


class _Group(NamedTuple):
    """A dataclass among a command's parameters."""

    kind: type
    optional: bool
    names: tuple[str, ...] | None

    @property
    def fields(self) -> list[dataclasses.Field[Any]]:
        every = dataclasses.fields(self.kind)
        return [field for field in every if self.names is None or field.name in self.names]


def _read_group(kind: Any) -> _Group | None:
    """The dataclass that a parameter is annotated with, if it is one."""
    names = None
    if get_origin(kind) is Annotated:
        kind, *others = get_args(kind)
        names = next((other.names for other in others if isinstance(other, Only)), None)
    bare, optional = _without_none(kind)
    if not (isinstance(bare, type) and dataclasses.is_dataclass(bare)):
        return None
    return _Group(bare, optional, names)


def _option(group: _Group, field: dataclasses.Field[Any]) -> inspect.Parameter:
    """A field as Typer's parameter."""
    kind: Any = get_type_hints(group.kind, include_extras=True)[field.name]
    info: OptionInfo | ArgumentInfo = typer.Option()
    if get_origin(kind) is Annotated:
        kind, *others = get_args(kind)
        info = next((i for i in others if isinstance(i, OptionInfo | ArgumentInfo)), info)
    readable, optional = _without_none(kind)
    if not (readable in _READABLE or get_origin(readable) is list):
        kind = str | None if optional else str
    required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    default = field.default if isinstance(field.default, _READABLE) else None
    info = copy(info)
    info.help = field_help(group.kind).get(field.name, "")
    if isinstance(info, OptionInfo):
        info.rich_help_panel = _heading(group.kind)
    if default is None or default is False:
        info.show_default = False
    empty = inspect.Parameter.empty
    return _parameter(field.name, Annotated[kind, info], empty if required else default)


def field_help(kind: type) -> dict[str, str]:
    """What the NumPy docstrings of a dataclass and its bases say of each field, in one line."""
    entries: dict[str, list[str]] = {}
    for base in reversed(kind.__mro__):
        names: list[str] = []
        for line in _attributes(base):
            if line and not line.startswith(" "):
                names = [name.strip() for name in line.partition(" : ")[0].split(",")]
                entries |= {name: [] for name in names}
            for name in names if line.startswith(" ") else ():
                entries[name].append(line.strip())
    return {name: " ".join(lines).replace("`", "") for name, lines in entries.items()}


def _attributes(kind: type) -> list[str]:
    """The lines of a docstring under the heading Attributes, or Parameters."""
    doc = inspect.cleandoc(kind.__doc__ or "")
    _, *parts = re.split(r"^(\w[\w ]*)\n-{3,}$", doc, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return (sections.get("Attributes") or sections.get("Parameters") or "").splitlines()


def _heading(kind: type) -> str:
    """The first line of a docstring, without its full stop."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n")[0].rstrip(".")


def _without_none(kind: Any) -> tuple[Any, bool]:
    """A type, or what is left of a union of types without None, and whether None was in it."""
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    others = [each for each in get_args(kind) if each is not NoneType]
    return (others[0] if len(others) == 1 else kind), len(others) < len(get_args(kind))


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
