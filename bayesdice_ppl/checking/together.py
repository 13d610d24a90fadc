"""Rows that move together: columns, episodes and stretches, and what they do to a width."""

from __future__ import annotations

import numpy as np

from bayesdice_ppl.checking.section import Section, warning
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.grouping import dependence_of
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.inference.groups import items_of, spread_of, sums_over
from bayesdice_ppl.logs import Logs, UsableRows
from bayesdice_ppl.logs.logged_value import value_parts

SHARED = "rows that move together"
BY_CHANCE = 0.001
"""Probability, over all groupings, with which one is told of by chance."""


def look(logs: Logs, rows: UsableRows, settings: FitSettings) -> Section | None:
    """How much wider the error of the logging policy's value is by each grouping; None if by none.

    Parameters
    ----------
    logs, rows
        The log, and the rows that a fit can use.
    settings
        The fit's settings, which say how rows are looked at.
    """
    from scipy.special import ndtri

    n = int(rows.mask.sum())
    found = dependence_of(logs, rows, np.zeros(n, dtype=np.int64), settings)
    if found is None or settings.by_episode:
        return None
    several = (*found.groupings, *found.suspects)
    several = tuple(each for each in several if each.pairs)
    if not several:
        return None
    paid, counted, _ = value_parts(logs, settings.gamma, restart=settings.form.moments.restart)
    paid, counted = paid[rows.mask], counted[rows.mask]
    if not counted.sum() > 0.0:
        return None
    value = float(paid.sum() / counted.sum())
    none = np.zeros(logs.n_episodes)
    values = np.r_[(paid - value * counted) / counted.sum(), none]
    # Ratios of widths have no unit, and fourth powers of large rewards are no numbers.
    values = values / max(float(np.abs(values).max()), 1e-300)
    weight = np.r_[counted, none]
    items = [items_of(each, logs.episode[rows.mask]) for each in several]
    limit = float(ndtri(1.0 - BY_CHANCE / len(several)))
    told, lines, faults = [], [], []
    alone = float(values @ values)
    for each, sums in zip(several, sums_over(items, values, weight), strict=True):
        spread = spread_of(sums)
        wider = float(np.sqrt(1.0 + max(spread.excess, 0.0) / alone)) if alone > 0.0 else 1.0
        shows = spread.score > limit
        suspect = any(each is one for one in found.suspects)
        told.append(
            {
                "name": each.name,
                "groups": each.of_rows,
                "wider": wider,
                "shows": shows,
                "by_order": each.by_order,
                "used_by_default": not suspect,
            }
        )
        if shows and suspect and wider > gauges.SHARED.warns:
            sentence = (
                f"Rows of one {each.name!r} move together: errors are {wider:.2g} times as wide as "
                f"if rows were independent. Its {each.of_rows} groups are few, so a fit only tells "
                f"of it. Ask for it with cluster={each.name!r} (--cluster) if they are a sample of "
                "many."
            )
            faults.append(warning(SHARED, sentence, each.name))
    lines += _words(told)
    title = "Rows that move together"
    return Section("dependence", title, {"groupings": told}, tuple(lines), faults=tuple(faults))


def _words(told: list[dict[str, object]]) -> list[str]:
    showing = [each for each in told if each["shows"] and each["used_by_default"]]
    silent = [each for each in told if not each["shows"] and not each["by_order"]]
    lines = []
    if showing:
        most = max(showing, key=lambda each: each["wider"])  # type: ignore[arg-type,return-value]
        lines.append(
            f"Those of one {most['name']} do ({most['groups']:,} groups): the error of the logging "
            f"policy's value is {most['wider']:.2g} times as wide as if rows were independent. A "
            "fit looks at that by itself."
        )
    if silent:
        names = ", ".join(str(each["name"]) for each in silent[:5])
        more = f" and {len(silent) - 5} more" if len(silent) > 5 else ""
        lines.append(f"Nothing shows by {names}{more}.")
    elif not showing:
        lines.append("Nothing shows by the order of the rows.")
    return lines
