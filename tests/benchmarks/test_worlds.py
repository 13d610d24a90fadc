"""From plenty of logs the belief finds the truth in every tabular world."""

import pytest

from benchmarks.worlds import SETTINGS, fit_setting

SMALL = [setting for setting in SETTINGS if setting.world != "taxi"]
LARGE = [setting for setting in SETTINGS if setting.world == "taxi"]


def name_of(setting):
    return f"{setting.world}-{setting.gamma or 'usual'}"


def assert_finds_the_truth(setting):
    rows = fit_setting(setting)
    assert len(rows) == 5
    for row in rows:
        assert abs(row["mean"] - row["truth"]) <= 5 * row["sd"], row
        assert row["distance"] <= setting.bar, row
        assert row["sd"] < 0.02 * max(abs(row["truth"]), 0.2), "five sd would hold anything"


@pytest.mark.slow
@pytest.mark.parametrize("setting", SMALL, ids=name_of)
def test_belief_from_200_000_transitions(setting):
    assert_finds_the_truth(setting)


@pytest.mark.slow
@pytest.mark.parametrize("setting", LARGE, ids=name_of)
def test_belief_from_200_000_transitions_of_taxi(setting):
    assert_finds_the_truth(setting)
