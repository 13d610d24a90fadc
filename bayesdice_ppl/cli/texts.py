"""Texts of the command line that stand for lists, pairs and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayesdice_ppl.errors import SettingsError

_QUOTED = re.compile(r'(?:^|(?<=[,=]))\s*"((?:[^"]|"")*)"\s*(?=[,=<>]|$)')
"""A name in double quotes, where a name may begin; a quote within is written twice."""
_PRIVATE = 0xF0000
"""Where the letters of such names are put while commas and signs are looked for."""
_HOW = "A name with a comma or a sign in it stands in double quotes, as in '\"a,b\"=3'."


def _hidden(text: str) -> str:
    """A text in which nothing of what stands in double quotes looks like a comma or a sign."""

    def moved(found: re.Match[str]) -> str:
        return "".join(
            chr(_PRIVATE + ord(each)) if ord(each) < 0xFFFE else each
            for each in found[1].replace('""', '"')
        )

    return _QUOTED.sub(moved, text)


def _as_given(text: str) -> str:
    """The text of `_hidden`, as it was between its quotes."""
    return "".join(
        chr(ord(each) - _PRIVATE) if _PRIVATE <= ord(each) < _PRIVATE + 0xFFFE else each
        for each in text
    )


def _entries(text: str) -> list[str]:
    """What stands between commas, of which those in double quotes are none."""
    return _hidden(text).split(",")


class Address(str):
    """The address of a log in a database, such as ``duckdb:///logs.duckdb?table=steps``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The address, as a path has a name."""
        return str(self)

    def resolve(self) -> str:
        """The address, which no file has."""
        return str(self)


def read_place(text: str) -> Path | Address:
    """Where a log is: a path, or the address of a database."""
    return Address(text) if "://" in text else Path(text)


def read_list(option: str, text: str | None) -> list[str]:
    """Read ``a,b``, or ``"a,b",c`` where a name has a comma; nothing given is an empty list.

    Raises
    ------
    SettingsError
        An entry is empty.
    """
    names = [] if text is None else [_as_given(name.strip()) for name in _entries(text)]
    if not all(names):
        raise SettingsError(f"{option}: expected names between commas, found {text!r}.")
    return names


def read_pairs(option: str, parts: Iterable[tuple[str, str, str]], example: str) -> dict[str, str]:
    """Read entries such as ``action=item_id``, each name once.

    Parameters
    ----------
    option
        Which option they are given for.
    parts
        Of each entry what stands before the equals sign, the sign, and what stands after it.
    example
        An entry as it should be, for the message.

    Raises
    ------
    SettingsError
        An entry is no pair, or a name is given twice.
    """
    pairs: dict[str, str] = {}
    for entry in parts:
        name, equals, value = (_as_given(part.strip()) for part in entry)
        if not (name and equals and value):
            found = _as_given("".join(entry))
            raise SettingsError(f"{option}: expected {example}, found {found!r}. {_HOW}")
        if name in pairs:
            raise SettingsError(f"{option}: {name!r} is given twice.")
        pairs[name] = value
    return pairs


def read_columns(text: str | None) -> dict[str, str] | None:
    """Read the names of columns from ``action=item_id,state=position``."""
    if text is None:
        return None
    parts = (entry.partition("=") for entry in _entries(text))
    return read_pairs("--columns", parts, "ours=yours, such as action=item_id")


def read_actions(text: str | None) -> list[Any] | None:
    """Read the actions from ``0,1,2`` (integers if all of them are) or ``buy,hold,sell``."""
    if text is None:
        return None
    labels = read_list("--actions", text)
    try:
        return [int(label) for label in labels]
    except ValueError:
        return labels


def read_costs(text: str) -> dict[str, float]:
    """Read costs from ``a=3,b=1.5``, or from a table with the columns policy and cost.

    Raises
    ------
    SettingsError
        The text or the table cannot be read, a cost is no number, or a name is given twice.
    """
    pairs: list[tuple[str, Any]]
    if text.lower().endswith((".csv", ".parquet")):
        pairs = _cost_table(Path(text))
    else:
        # From the right, since a name may hold an equals sign.
        parts = (entry.rpartition("=") for entry in _entries(text))
        pairs = list(read_pairs("--costs", parts, "name=cost, such as a=3").items())
    costs: dict[str, float] = {}
    for name, cost in pairs:
        if name in costs:
            raise SettingsError(f"--costs: {name!r} is given twice.")
        try:
            costs[name] = float(cost)
        except (TypeError, ValueError):
            raise SettingsError(
                f"--costs: expected a number as the cost of {name!r}, found {cost!r}."
            ) from None
    return costs


def read_weights(option: str, text: str) -> dict[str, float]:
    """Read weights from ``quality=1,cost=-0.5``.

    Raises
    ------
    SettingsError
        An entry is no pair, a weight is no number, or a name is given twice.
    """
    parts = (entry.rpartition("=") for entry in _entries(text))
    pairs = read_pairs(option, parts, "name=weight, such as cost=-0.5")
    return {name: _number(option, name, weight) for name, weight in pairs.items()}


def read_limits(option: str, text: str) -> dict[str, tuple[float | None, float | None]]:
    """Read limits from ``cost<=0.02,quality>=0.7``; a name may have one of each.

    Raises
    ------
    SettingsError
        An entry is no limit, a limit is no number, or a name has two to one side.
    """
    found: dict[str, tuple[float | None, float | None]] = {}
    for entry in _entries(text):
        sign = "<=" if "<=" in entry else ">="
        name, written, number = (_as_given(part.strip()) for part in entry.rpartition(sign))
        if not (name and written and number):
            raise SettingsError(
                f"{option}: expected limits such as cost<=0.02, in quotes for the shell, found "
                f"{_as_given(entry)!r}. {_HOW}"
            )
        low, high = found.get(name, (None, None))
        if (high if sign == "<=" else low) is not None:
            raise SettingsError(f"{option}: {name!r} has two limits {sign}. Give one.")
        limit = _number(option, name, number)
        found[name] = (low, limit) if sign == "<=" else (limit, high)
    return found


def _number(option: str, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"{option}: expected a number for {name!r}, found {text!r}.") from None


def read_numbers(option: str, text: str) -> tuple[float, ...]:
    """Read numbers between commas.

    Raises
    ------
    SettingsError
        Something between commas is no number.
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise SettingsError(
            f"{option}: expected numbers between commas, such as 0,1, found {text!r}."
        ) from None


def _cost_table(path: Path) -> list[tuple[str, Any]]:
    from bayesdice_ppl.logs.files import read_file

    try:
        table = read_file(
            path, SettingsError, is_number=lambda name: name == "cost", texts=["policy"]
        )
    except SettingsError as error:
        raise SettingsError(f"--costs: {error}") from error
    if not {"policy", "cost"} <= set(table.columns):
        raise SettingsError(
            f"--costs: {path} needs the columns policy and cost, found {', '.join(table.columns)}."
        )
    missing = table["policy"].is_null()
    if missing.any():
        row = int(missing.arg_true()[0]) + 1
        raise SettingsError(f"--costs: {path}, row {row}: the policy is missing. Fill it in.")
    return [(str(name), cost) for name, cost in table.select("policy", "cost").iter_rows()]
