"""Units of rewards, by hand and through a query."""

import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.interface import Query
from bayesdice_ppl.logs import reward_units
from tests.test_equivariance import TARGETS, frame_of, moved


def test_by_hand():
    units = reward_units(np.array([1.0, 3.0, 8.0]))
    assert units[:2] == (1.0, 3.0)
    assert units.scale == pytest.approx(np.sqrt((9.0 + 1.0 + 16.0) / 3.0), rel=1e-15)
    assert units.back(units.zero) == pytest.approx(0.0, abs=1e-15)
    kept = reward_units(np.array([3.0, 4.0]), zero_means=True)
    assert kept == (0.0, 0.0, pytest.approx(np.sqrt(12.5), rel=1e-15))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_squares_that_are_no_numbers_are_not_needed(size):
    assert reward_units(size * np.array([0.0, 2.0])).scale == pytest.approx(size, rel=1e-15)


def test_equal_rewards_have_no_scale():
    units = reward_units(np.full(7, 0.1))
    assert units == (0.1, 0.0, 0.0)
    assert units.into(np.full(7, 0.1)).tolist() == [0.0] * 7
    assert units.back(5.0) == 0.1


def test_a_query_brings_rewards_back():
    logs = bd.Logs.from_dataframe(moved(frame_of(), 3.0, 7.0))
    query = Query(logs, bd.TabularPolicy(TARGETS["calm"]), 0.9)
    reward = query.standard.logs.reward
    assert reward.mean() == pytest.approx(0.0, abs=1e-14)
    assert reward.std() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(query.units.back(reward), logs.reward, rtol=1e-14)
    absorbed = Query(logs, bd.TabularPolicy(TARGETS["calm"]), 0.9, on_termination="absorb")
    assert absorbed.units[:2] == (0.0, 0.0)
