"""Gauges: thresholds and directions, and the page that lists them."""

import math
from pathlib import Path

import pytest

from bayesdice_ppl.fitting.gauges import GAUGES, Gauge
from benchmarks.gauge_cases import CASES, row_of

PAGE = Path(__file__).parents[2] / "docs" / "warnings.md"


@pytest.mark.parametrize(
    ("number", "said"),
    [(0.1, None), (0.2, None), (0.21, False), (0.5, False), (0.51, True), (math.nan, True)],
)
def test_high_numbers_of_a_gauge_warn_and_abstain(number, said):
    found = Gauge("load", "share", 0.2, 0.5).judge("a", number, "is heavy.")
    assert [warning.abstain for warning in found] == ([] if said is None else [said])
    if found and not math.isnan(number):
        assert found[0].number == number
        assert found[0].threshold == (0.5 if said else 0.2)
        assert found[0].name == "load"
        assert found[0].sentence == "a: is heavy."


@pytest.mark.parametrize(
    ("number", "said"), [(5.0, None), (4.0, False), (2.1, False), (2.0, True), (math.inf, None)]
)
def test_low_numbers_of_a_gauge_that_falls_do(number, said):
    found = Gauge("df", "freedom", 4.0, 2.0, falls=True).judge("a", number, "is thin.")
    assert [warning.abstain for warning in found] == ([] if said is None else [said])


def test_a_gauge_without_a_second_threshold_never_abstains():
    (warning,) = Gauge("share", "of one", 0.5).judge("a", math.inf, "is large.")
    assert not warning.abstain
    # JSON has no infinity.
    assert warning.number is None


def test_names_are_different_and_the_page_has_them_all():
    names = [gauge.name for gauge in GAUGES]
    assert len(set(names)) == len(names)
    page = PAGE.read_text(encoding="utf-8")
    for gauge in GAUGES:
        side = "at most" if gauge.falls else "above"
        warns, abstains = (
            "never" if math.isinf(number) else f"{side} {number:g}"
            for number in (gauge.warns, gauge.abstains)
        )
        anchor = f'<a id="{gauge.name.replace(" ", "-")}"></a>'
        assert f"| {anchor}{gauge.name} | {gauge.meaning} | {warns} | {abstains} |" in page


def test_each_gauge_has_a_case():
    assert {case.gauge.name for case in CASES} == {gauge.name for gauge in GAUGES}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.gauge.name)
def test_each_gauge_speaks_on_its_case_and_is_silent_without_the_fault(case):
    row = row_of(case)
    assert row["says"] in ("warns", "abstains")
    assert row["without it"] == "nothing"
