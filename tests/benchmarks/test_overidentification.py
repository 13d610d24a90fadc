"""The worlds of J: their closed forms against simulation, and the test's size and power."""

import numpy as np
import pytest

from benchmarks.overidentification import WORLDS, Linear, bandit_value, cell_rows, linear_value


@pytest.mark.parametrize("policy", [Linear(-0.2, 0.15, 0.5), Linear(-0.6, 0.0, 0.5)])
def test_values_are_those_of_a_simulation(policy):
    rng = np.random.default_rng(2)
    n = 200_000
    s = rng.normal(size=n)
    a = policy.slope * s + policy.shift + policy.sd * rng.normal(size=n)
    reward = a * s - 0.3 * a**2 + np.sin(2.0 * s)
    assert abs(reward.mean() - bandit_value(policy)) < 4.5 * reward.std() / np.sqrt(n)
    for _ in range(30):
        a = policy.slope * s + policy.shift + policy.sd * rng.normal(size=n)
        reward = -(s**2) - 0.5 * a**2 + np.sin(2.0 * s)
        s = 0.5 * s + a + 0.5 * rng.normal(size=n)
    assert abs(reward.mean() - linear_value(policy)) < 4.5 * reward.std() / np.sqrt(n)


def test_it_has_power_where_features_fail_and_none_where_they_do_not():
    name = "linear-Gaussian, (s, a)"
    shifted, steeper, wider = cell_rows(name, WORLDS[name], 20)
    # 4.5 standard errors above a size of 0.05.
    assert shifted["size_5"] < 0.05 + 4.5 * np.sqrt(0.05 * 0.95 / 20)
    assert min(steeper["size_1"], wider["size_1"]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WORLDS))
def test_its_size_is_right(name):
    logs = 300
    shifted = cell_rows(name, WORLDS[name], logs)[0]
    for size in (0.01, 0.05, 0.1):
        error = np.sqrt(size * (1.0 - size) / logs)
        assert abs(shifted[f"size_{100 * size:.0f}"] - size) < 4.5 * error
