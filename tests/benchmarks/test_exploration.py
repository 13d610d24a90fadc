"""The summary of regret curves, on curves made by hand."""

import numpy as np
import pytest

from benchmarks.exploration import WORLDS, bonus_slope, summarize


def test_growth_late_loss_and_ratio_of_known_curves():
    rounds, steps = WORLDS["riverswim"][2:]
    linear = np.arange(1.0, rounds + 1) * steps * 0.1 * np.array([[0.9], [1.1]])
    stopped = np.full((2, rounds), 100.0)
    row = summarize("riverswim", "x", linear, stopped, 0.4, 0.1)
    assert row["growth"] == pytest.approx(1.0)
    # A tenth of a reward is lost per step, a quarter of the best value.
    assert row["late"] == pytest.approx(0.25)
    assert row["ratio"] == pytest.approx(0.1 * rounds * steps / 100.0)
    assert row["regret_low"] < row["regret"] < row["regret_high"]
    row = summarize("riverswim", "x", stopped, stopped, 0.4, 0.1)
    assert (row["growth"], row["late"], row["ratio"]) == (0.0, 0.0, 1.0)


def test_the_slope_of_the_bonus_is_one_over_n():
    slope, error = bonus_slope(4)
    assert abs(slope + 1.0) < 5.0 * error + 0.03
