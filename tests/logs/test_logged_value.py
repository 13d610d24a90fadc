"""The logging policy's own value, against examples worked by hand."""

import math

import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.logs.logged_value import logged_value


def log(episodes):
    """Episodes as lists of rewards; a trailing "end" marks a termination."""
    rows = []
    for name, rewards in enumerate(episodes):
        ended = rewards[-1] == "end"
        numbers = rewards[:-1] if ended else rewards
        for step, reward in enumerate(numbers):
            last = step == len(numbers) - 1
            rows.append((name, step, 0, 0, float(reward), 0, ended and last))
    names = ["episode_id", "step", "state", "action", "reward", "next_state", "terminated"]
    return Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))


def test_discounted_truncated_episodes_by_hand():
    # gamma 1/2. Returns 1 + 1/4 = 5/4 of weight 7/4, and 1/2 of weight 3/2, before (1 - gamma).
    found = logged_value(log([[1, 0, 1], [0, 1]]), 0.5)
    value = (1.25 + 0.5) / (1.75 + 1.5)
    assert found.value == pytest.approx(value)
    # Delta method: residuals of each episode over the mean weight, and their standard error.
    mean_weight = (1.75 + 1.5) / 2
    residuals = [(1.25 - value * 1.75) / mean_weight, (0.5 - value * 1.5) / mean_weight]
    assert sum(residuals) == pytest.approx(0.0, abs=1e-12)
    spread = math.sqrt(sum(r**2 for r in residuals) / 1)
    assert found.standard_error == pytest.approx(spread / math.sqrt(2))
    # Weights 1/8 and 1/4 were never seen; 7/8 and 3/4 were.
    assert found.tail == pytest.approx((0.125 + 0.25) / (0.875 + 0.75))


def test_it_is_not_the_mean_reward():
    logs = log([[1, 0, 0, 0, 0, 0]])
    assert logged_value(logs, 0.5).value > 2 * logs.reward.mean()


def test_after_a_restart_the_rest_is_like_what_was_seen():
    found = logged_value(log([[1, 1, "end"], [1, 1, 1, "end"]]), 0.9)
    assert found.value == pytest.approx(1.0)
    assert found.tail == 0.0


def test_an_absorbed_episode_earns_nothing_after_its_end():
    found = logged_value(log([[1, 1, "end"], [1, "end"]]), 0.5, restart=False)
    assert found.value == pytest.approx(0.5 * (1.5 + 1.0) / 2)
    assert found.tail == 0.0


def test_absorbed_and_truncated_episodes_together_by_hand():
    found = logged_value(log([[2, "end"], [1, 1]]), 0.5, restart=False)
    # Weights: 1 for the absorbed, 1 - 1/4 for the truncated, which earned 3/2 of its 2 units.
    assert found.value == pytest.approx((0.5 * 2 + 0.5 * 1.5) / (1 + 0.75))
    assert found.tail == pytest.approx(0.25 / 1.75)


def test_at_gamma_one_it_is_the_reward_per_step():
    found = logged_value(log([[1, 0, 1], [0], [1, 1]]), 1.0)
    assert found.value == pytest.approx(4 / 6)
    assert found.tail == 0.0


def test_at_gamma_zero_it_is_the_first_reward():
    found = logged_value(log([[1, 9, 9], [0, 9], [1, 9]]), 0.0)
    assert found.value == pytest.approx(2 / 3)
    assert found.standard_error == pytest.approx(math.sqrt((1 / 9 + 4 / 9 + 1 / 9) / 2 / 3))
    assert found.tail == 0.0


def test_one_episode_has_no_standard_error():
    assert math.isnan(logged_value(log([[1, 0]]), 0.5).standard_error)
