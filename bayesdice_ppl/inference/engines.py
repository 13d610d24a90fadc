"""Every engine by name. To add one, write it as an `Engine` and list it here."""

from __future__ import annotations

from collections.abc import Callable

from bayesdice_ppl import checks
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference.engine import Engine
from bayesdice_ppl.inference.exact import Exact
from bayesdice_ppl.inference.laplace import Laplace
from bayesdice_ppl.inference.minmax import MinMax
from bayesdice_ppl.inference.nuts import Nuts
from bayesdice_ppl.inference.svi import Svi

ENGINES: dict[str, Callable[[], Engine]] = {
    "svi": Svi,
    "exact": Exact,
    "laplace": Laplace,
    "nuts": Nuts,
    "minmax": MinMax,
}
"""Every engine by name."""


def engine_choice(given: Engine | str) -> Engine:
    """Look an engine up by name, or take one as it is.

    Raises
    ------
    SettingsError
        There is no such engine.
    """
    if isinstance(given, str):
        if given not in ENGINES:
            raise SettingsError(
                f"inference: expected one of {checks.listed(ENGINES)}, or 'auto' in fit and on the "
                f"command line, found {given!r}."
            )
        return ENGINES[given]()
    if not isinstance(given, Engine):
        raise SettingsError(
            f"inference: expected one of {checks.listed(ENGINES)} or an engine such as "
            f"bd.inference.Svi(), found {given!r}."
        )
    return given
