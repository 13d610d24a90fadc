"""The logging policies of the adaptive logs act by the propensities that they log."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from benchmarks.adaptive import WORLDS, Thompson, measure, plain_interval, write_logs

SMALL = {world.name: world._replace(n=60) for world in WORLDS}


@pytest.mark.parametrize("binary", [False, True])
def test_thompson_sampling_takes_an_action_as_often_as_it_is_drawn_best(binary):
    rng = np.random.default_rng(0)
    policy = Thompson((1, 1, 3), 400, binary)
    count, total = np.zeros(3), np.zeros(3)
    here = np.zeros(1, int)
    for action, reward in [(0, 1.0), (0, 0.0), (1, 1.0), (2, 0.0), (1, 1.0), (0, 1.0)]:
        policy.learn(here, np.array([action]), np.array([reward]))
        count[action] += 1.0
        total[action] += reward
    if binary:
        drawn = rng.beta(total + 1.0, count - total + 1.0, size=(200_000, 3))
    else:
        drawn = rng.normal(total / (count + 1.0), 1.0 / np.sqrt(count + 1.0), size=(200_000, 3))
    expected = np.bincount(drawn.argmax(axis=1), minlength=3) / 200_000
    # Five standard errors.
    np.testing.assert_allclose(policy.chances(0, here)[0], expected, atol=5 * 0.5 / 200_000**0.5)


@pytest.mark.parametrize("name", SMALL)
def test_actions_are_taken_as_often_as_logged(name):
    world = SMALL[name]
    written = write_logs(world, 200, np.random.default_rng(1))
    assert written.reward.shape == (200, 60)
    assert np.all((written.propensity > 0.0) & (written.propensity <= 1.0))
    if "UCB1" in name:
        assert np.all(written.propensity == 1.0)
        return
    # For each action, taken less its probability sums to nothing: seen where it was taken.
    for action in range(world.shape[1]):
        taken = (written.action == action) / written.propensity - 1.0
        by_log = taken.mean(axis=1)
        assert abs(by_log.mean()) < 5.0 * stats.sem(by_log) + 0.05


def test_plain_intervals_are_those_of_means():
    frame = pl.DataFrame({"state": [0, 0, 0, 0], "action": [0, 0, 1, 1], "reward": [1.0, 3, 0, 4]})
    value, width = plain_interval(frame, np.array([[[0.25, 0.75]]]))
    assert value[0] == pytest.approx(0.25 * 2.0 + 0.75 * 2.0)
    # Squared deviations of 2 and 8 with two degrees of freedom, two visits each.
    assert width[0] == pytest.approx(np.sqrt((0.25**2 + 0.75**2) * 5.0 / 2.0))


def test_a_row_of_the_table_has_shares():
    for row in measure(SMALL["greedy, means 0"]._replace(n=150), 6):
        shares = [row[name] for name in ("found", "weighted", "warned", "abstained", "cov_90")]
        assert all(0.0 <= share <= 1.0 for share in shares)
        assert row["logs"] == 6
