"""Numbers in tables of the terminal: digits that tell something, in the width there is."""

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import bayesdice_ppl as bd
from bayesdice_ppl.belief import earned_words, make_belief
from bayesdice_ppl.cli.console import show_selection

NAMES = ["the first one", "the second one", "the third one"]


def page_of(values, names):
    belief = make_belief(values, names)
    page = Console(file=io.StringIO(), width=80, highlight=False)
    show_selection(page, bd.select(belief, bd.scores.regret(k=1)))
    return page.file.getvalue()


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=5),
    st.floats(-12, 6),
    st.integers(1, 45),
    st.sampled_from([0.0, 1e-9, 1.0]),
)
def test_names_and_numbers_are_whole_whatever_they_are(means, size, length, alike):
    """Large, small, mixed or all but equal: no name is pushed out, and no number is cut."""
    rng = np.random.default_rng(0)
    names = [f"{k}{'n' * (length - 1)}" for k in range(len(means))]
    centers = means[0] + alike * (np.array(means) - means[0])
    values = centers + 10.0**size * rng.normal(size=(50, len(means)))
    text = page_of(values, names)
    table = text[: text.index("\n\n") if "\n\n" in text else None]
    assert "…" not in text
    for heading in ("mean", "sd", "90 % interval", "P(best)", "P(top 1)", "E(rank)"):
        assert heading in text
    letters = "".join(part for part in table.split())
    for name in names:
        assert name[:20] in letters
    assert max(map(len, text.splitlines())) <= 80


def test_digits_in_common_are_told_once():
    rng = np.random.default_rng(0)
    values = 1e6 + np.array([0.013, 0.012, 0.010]) + 1e-3 * rng.normal(size=(500, 3))
    text = page_of(values, NAMES)
    base = float(re.search(r"above (\S+),", text)[1])
    (line,) = [line for line in text.splitlines() if NAMES[0] in line and " to " in line]
    assert base + float(line.split()[4]) == pytest.approx(values[:, 0].mean(), abs=2e-5)


def test_one_episode_is_said_in_words():
    assert earned_words(0.5, float("nan")).endswith("(one episode, and so no standard error).")
    assert "standard error 0.1" in earned_words(0.5, 0.1)


def test_a_hundred_names_are_five_and_a_count():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 100)) + np.linspace(0, 30, 100)
    chosen = bd.select(
        make_belief(values, [f"policy-{k}" for k in range(100)]), bd.scores.kendall()
    )
    for text, most in (
        (chosen.certificate.statement, 6),
        (repr(chosen.certificate), 12),
        (chosen.answer, 9),
    ):
        assert 0 < text.count("policy-") <= most


def shown(scale):
    """What is shown of three values about 1, 2 and 3 with sds of 0.05, and their means."""
    rng = np.random.default_rng(0)
    values = scale * (np.array([1.0, 2.0, 3.0]) + 0.05 * rng.normal(size=(500, 3)))
    return page_of(values, NAMES), values.mean(axis=0)


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
