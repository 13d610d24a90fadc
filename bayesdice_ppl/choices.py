"""One grammar for every choice that can be written as text: ``name`` or ``name(number)``.

Penalties, surrogates, statistics and risks are objects that functions make. Their text, as a belief
keeps it and the command line takes it, is the call of such a function, and is read back here.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from bayesdice_ppl.errors import SettingsError

_CALL = re.compile(r"([a-z_]+)(?:\(\s*([^()]*?)\s*\))?")


def read_choice[T](setting: str, text: Any, makers: Mapping[str, Callable[..., T]]) -> T:
    """Make what a text such as ``"cvar(0.1)"`` stands for.

    Parameters
    ----------
    setting
        Which setting the text is given for; it begins every message.
    text
        ``name`` or ``name(number)``.
    makers
        Name -> function of no number or of one.

    Raises
    ------
    SettingsError
        There is no such name, its number is missing, is no number, or is one too many; and
        whatever the function itself refuses.
    """
    found = _CALL.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[1] not in makers:
        raise SettingsError(f"{setting}: expected one of {_calls(makers)}, found {text!r}.")
    name, number = found[1], found[2]
    parameters = list(inspect.signature(makers[name]).parameters.values())
    if not number:
        if any(parameter.default is inspect.Parameter.empty for parameter in parameters):
            raise SettingsError(
                f"{setting}: {name} needs a number: write {_call(name, makers[name])}, "
                f"found {text!r}."
            )
        return makers[name]()
    if not parameters:
        raise SettingsError(f"{setting}: {name} takes no number, found {text!r}.")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SettingsError(f"{setting}: expected a number in brackets, found {text!r}.")
    return makers[name](value)


def _call(name: str, maker: Callable[..., Any]) -> str:
    parameters = list(inspect.signature(maker).parameters)
    return f"{name}({parameters[0]})" if parameters else name


def _calls(makers: Mapping[str, Callable[..., Any]]) -> str:
    return ", ".join(_call(name, maker) for name, maker in makers.items())
