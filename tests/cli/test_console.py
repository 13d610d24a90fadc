"""Numbers in tables of the terminal: digits that tell something, in the width there is."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

import bayesdice_ppl as bd
from bayesdice_ppl.belief import make_belief
from bayesdice_ppl.cli.console import show_selection

NAMES = ["the first one", "the second one", "the third one"]


def shown(scale):
    """What is shown of three values about 1, 2 and 3 with sds of 0.05, and their means."""
    rng = np.random.default_rng(0)
    values = scale * (np.array([1.0, 2.0, 3.0]) + 0.05 * rng.normal(size=(500, 3)))
    belief = make_belief(values, NAMES)
    page = Console(file=io.StringIO(), width=80, highlight=False)
    show_selection(page, bd.select(belief, bd.scores.regret(k=1)))
    return page.file.getvalue(), values.mean(axis=0)


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-4, 1.0, 1e4, 1e7, 1e12, -1e-9, -1e12])
def test_every_column_is_there_whatever_the_numbers(scale):
    text, means = shown(scale)
    unit = re.search(r"in units of\s+(1e-?\d+)", text)
    # At 1e-4 two digits of the sd, 0.000005, would take seven decimals.
    assert (unit is None) == (1e-4 < abs(scale) <= 1e4)
    for place, best in enumerate(np.argsort(-means), start=1):
        (line,) = [line for line in text.splitlines() if NAMES[best] in line and " to " in line]
        cells = line.split()
        # Place, name, mean, sd, "lower to upper", P(best), P(top 1), E(rank).
        assert cells[0] == str(place)
        assert len(cells) == 12
        mean = float(cells[4]) * (1.0 if unit is None else float(unit[1]))
        # Two digits of an sd of 0.05, of which half a unit is lost.
        assert mean == pytest.approx(means[best], abs=0.00051 * abs(scale))


def test_everyday_numbers_are_written_out():
    text, _ = shown(1.0)
    assert "3.000" in text
    assert "units" not in text
