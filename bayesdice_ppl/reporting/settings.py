"""What was set: every choice behind a belief, and how it was made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bayesdice_ppl.belief import BeliefView, how_made
from bayesdice_ppl.errors import BeliefError

if TYPE_CHECKING:
    from xarray import DataTree


@final
class Choices(NamedTuple):
    """What was set.

    Attributes
    ----------
    account
        How the belief was made, in sentences.
    rows
        Name and value of every setting.
    versions
        Name and version of the packages that made it.
    seed
        The seed, or the words of the key; empty where the belief does not say.
    """

    account: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    seed: str


def read_choices(belief: DataTree) -> Choices:
    """Read what was set from a belief; one of another program may say nothing.

    Parameters
    ----------
    belief
        The belief.
    """
    view = BeliefView(belief)
    try:
        account, settings, versions = how_made(view), view.settings, view.versions
        seed = _seed(view)
    except (BeliefError, KeyError, TypeError):
        # A belief of another program may use the attributes for something else.
        return Choices((), (), (), "")
    rows = tuple((name, _written(value)) for name, value in settings.items())
    kept = tuple((str(name), str(version)) for name, version in versions.items())
    return Choices(tuple(account), rows, kept, seed)


def _seed(view: BeliefView) -> str:
    if view.seed is not None:
        return f"seed {view.seed}"
    return f"key {view.rng_key}" if view.rng_key else ""


def _written(value: Any) -> str:
    """A value as it is read: nothing is a dash, lists and objects are in JSON's words."""
    if value is None:
        return "–"  # noqa: RUF001  nothing was set
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_written(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_written, value))
    return value if isinstance(value, str) else json.dumps(value)
