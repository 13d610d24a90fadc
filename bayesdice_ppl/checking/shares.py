"""Several logging policies in one log: their shares, by a column that names them.

Rows of several policies are those of their mixture, of which a belief is as right as of one. What
it needs is that the state holds what the choice among them depended on.
"""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.checking.section import Section, number
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.logs.familiar import plain
from bayesdice_ppl.logs.logged_value import value_parts

_NAMES = frozenset(
    f"{whose}policy{what}"
    for whose in ("logging", "behavior", "behaviour", "")
    for what in ("", "id", "name")
)
_MOST = 10


def look(logs: Logs, gamma: float, *, restart: bool) -> Section | None:
    """Shares of the logging policies; None where no column names them.

    Parameters
    ----------
    logs
        The log.
    gamma
        Discount.
    restart
        Whether a termination is followed by a new episode.
    """
    names = [name for name in logs.groups if plain(name) in _NAMES]
    if not names:
        return None
    column = names[0]
    series = logs.groups[column]
    code = logs.group_codes(column)
    paid, counted, _ = value_parts(logs, gamma, restart=restart)
    kinds, first = np.unique(code, return_index=True)
    labels = [str(series[int(at)]) for at in first]
    n = logs.n_transitions
    rows = np.bincount(code, minlength=int(kinds.max()) + 1)[kinds]
    top = np.bincount(code, paid)[kinds]
    bottom = np.bincount(code, counted)[kinds]
    changes = (logs.episode[1:] == logs.episode[:-1]) & (code[1:] != code[:-1])
    within = len(np.unique(logs.episode[1:][changes]))
    told = [
        {
            "name": label,
            "rows": int(count),
            "share": count / n,
            "value": number(one / other) if other > 0.0 else None,
        }
        for label, count, one, other in zip(labels, rows, top, bottom, strict=True)
    ]
    told.sort(key=lambda each: -each["rows"])
    facts = {"column": column, "changes_within_episodes": within, "policies": told}
    many = len(told) > 1
    lines = [
        f"{column!r} names {len(told):,} polic{'ies' if many else 'y'}."
        + (" A belief is of the log as a whole, which is their mixture." if many else "")
    ]
    if within:
        lines.append(f"In {within:,} episodes it changes on the way.")
    cells = tuple(
        (
            each["name"],
            f"{each['rows']:,}",
            f"{each['share']:.1%}",
            "" if each["value"] is None else f"{each['value']:.4g}",
        )
        for each in told[:_MOST]
    )
    if len(told) > _MOST:
        lines.append(f"The {_MOST} with the most rows:")
    headings = ("policy", "rows", "share", "value")
    return Section("policies", "Several logging policies", facts, tuple(lines), headings, cells)
