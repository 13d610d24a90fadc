"""Intervals against SciPy, against the formulas of the papers, and by how often they cover."""

import jax
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bayesdice_ppl as bd
from bayesdice_ppl import Logs, TabularPolicy
from bayesdice_ppl.baselines import estimate_all, marginalized
from bayesdice_ppl.baselines.interface import Query
from bayesdice_ppl.baselines.weighting.intervals import (
    acceleration,
    bca_interval,
    bernstein_interval,
    hoeffding_interval,
    student_interval,
)
from bayesdice_ppl.errors import LogsError, SettingsError

SAMPLE = np.random.default_rng(0).gamma(0.7, size=23)
TRIALS = 2000
# Distributions on [0, 1], their means, and how to draw from them.
SHAPES = {
    "coin": (0.5, lambda rng, size: rng.integers(2, size=size).astype(float)),
    "rare": (0.03, lambda rng, size: (rng.random(size) < 0.03).astype(float)),
    "uniform": (0.5, lambda rng, size: rng.random(size)),
    "skewed": (1.0 / 11.0, lambda rng, size: rng.beta(0.2, 2.0, size)),
    "nearly one": (10.0 / 11.0, lambda rng, size: rng.beta(2.0, 0.2, size)),
}


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_student_is_scipys(level):
    expected = stats.t.interval(level, len(SAMPLE) - 1, SAMPLE.mean(), stats.sem(SAMPLE))
    np.testing.assert_allclose(student_interval(SAMPLE, level), expected, rtol=1e-13)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_bca_is_scipys(level):
    key = jax.random.key(5)
    seed = np.random.SeedSequence(np.asarray(jax.random.key_data(key)).tolist())
    expected = stats.bootstrap(
        (SAMPLE,),
        np.mean,
        confidence_level=level,
        n_resamples=1234,
        method="BCa",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    found = bca_interval(SAMPLE, level, key, 1234)
    # Means of resamples are rounded to the twelfth decimal of a standard deviation.
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-12 * SAMPLE.std())
    assert found == bca_interval(SAMPLE, level, key, 1234)
    assert found != bca_interval(SAMPLE, level, jax.random.key(6), 1234)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bca_of_a_ratio_is_scipys(level):
    key, rng = jax.random.key(5), np.random.default_rng(2)
    mass = rng.gamma(2.0, size=40)
    mass /= mass.mean()
    off = mass * rng.gamma(1.0, size=40)
    off = (off - off.mean()) / off.std()
    seed = np.random.SeedSequence(np.asarray(jax.random.key_data(key)).tolist())
    expected = stats.bootstrap(
        (off, mass),
        lambda off, mass, axis: off.mean(axis=axis) / mass.mean(axis=axis),
        paired=True,
        vectorized=True,
        confidence_level=level,
        n_resamples=999,
        method="BCa",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    np.testing.assert_allclose(bca_interval(off, level, key, 999, mass), expected, rtol=1e-9)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 3)), min_size=3, max_size=30).filter(
        lambda pairs: np.ptp([off for off, _ in pairs]) > 1e-3
    ),
    st.booleans(),
)
def test_the_acceleration_is_the_jackknifes(pairs, ratio):
    """A plain loop that leaves each episode out."""
    off, mass = np.array(pairs).T
    without = []
    for left in range(len(off)):
        kept = np.arange(len(off)) != left
        without.append(off[kept].sum() / (mass[kept].sum() if ratio else kept.sum()))
    moved = np.mean(without) - np.array(without)
    expected = np.sum(moved**3) / (6.0 * np.sum(moved**2) ** 1.5)
    assert acceleration(off, mass if ratio else None) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_bca_of_many_episodes_takes_no_table_of_all_pairs():
    """A jackknife that built each sample would make 90 billion numbers here."""
    sample = np.random.default_rng(0).gamma(1.0, size=300_000)
    low, high = bca_interval(sample, 0.9, jax.random.key(0), 100)
    # Of so many the interval is Student's, but for the error of a hundred resamples.
    ends = np.array(student_interval(sample, 0.9))
    np.testing.assert_allclose([low, high], ends, atol=0.5 * (ends[1] - ends[0]))


def test_bca_in_batches_is_the_same(monkeypatch):
    key = jax.random.key(5)
    whole = bca_interval(SAMPLE, 0.9, key, 500)
    monkeypatch.setattr("bayesdice_ppl.baselines.weighting.intervals._MOST_NUMBERS", 100)
    np.testing.assert_allclose(bca_interval(SAMPLE, 0.9, key, 500), whole, rtol=1e-13)


def test_estimates_that_are_all_the_same_leave_a_point():
    same = np.full(9, 1.25)
    assert bca_interval(same, 0.9, jax.random.key(0)) == (1.25, 1.25)
    assert student_interval(same, 0.9) == (1.25, 1.25)


def test_hoeffding_by_hand():
    sample = np.array([0.2, 0.4, 0.9])
    # delta = 0.1 on both sides together: exp(-2 m t^2 / width^2) = 0.05 on each.
    lower, upper = hoeffding_interval(sample, 0.9, 2.0)
    reach = upper - 0.5
    assert np.exp(-2 * 3 * (reach / 2.0) ** 2) == pytest.approx(0.05, rel=1e-12)
    assert 0.5 - lower == pytest.approx(reach, rel=1e-12)


def test_hoeffding_shrinks_as_one_over_the_root_of_the_number_of_episodes():
    width = [np.diff(hoeffding_interval(np.tile(SAMPLE, k), 0.9, 3.0)).item() for k in (1, 4, 16)]
    assert width[0] == pytest.approx(2.0 * width[1], rel=1e-12)
    assert width[0] == pytest.approx(4.0 * width[2], rel=1e-12)


def test_bernstein_by_hand():
    sample = np.array([0.2, 0.4, 0.9])
    # Mean square difference of pairs is twice the variance: (0.04 + 0.25 + 0.49) / 3 / 2 = 0.13.
    log_term = np.log(2.0 / 0.05)
    reach = np.sqrt(2.0 * 0.13 * log_term / 3.0) + 7.0 * 2.0 * log_term / (3.0 * 2.0)
    np.testing.assert_allclose(
        bernstein_interval(sample, 0.9, 2.0), (0.5 - reach, 0.5 + reach), rtol=1e-12
    )


def test_bernstein_shrinks_and_in_time_beats_hoeffding_where_variance_is_small():
    rng = np.random.default_rng(1)
    small = 0.5 + 0.01 * rng.random(20_000)
    # At this level and variance the two cross near 50 numbers.
    for m in (20, 20_000):
        bernstein = np.diff(bernstein_interval(small[:m], 0.9, 1.0)).item()
        hoeffding = np.diff(hoeffding_interval(small[:m], 0.9, 1.0)).item()
        assert (bernstein < hoeffding) == (m == 20_000)


def _covered(intervals, truth):
    return np.mean([lower <= truth <= upper for lower, upper in intervals])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("bound", [bernstein_interval, hoeffding_interval])
def test_bounds_cover_at_least_as_often_as_they_say(bound, level, shape):
    truth, draw = SHAPES[shape]
    for m in (5, 50):
        samples = draw(np.random.default_rng(m), (TRIALS, m))
        covered = _covered([bound(sample, level, 1.0) for sample in samples], truth)
        error = np.sqrt(level * (1.0 - level) / TRIALS)
        assert covered >= level - 4.0 * error


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_student_covers_as_often_as_it_says_on_normal_samples(level):
    samples = np.random.default_rng(3).normal(0.3, 2.0, (TRIALS, 6))
    covered = _covered([student_interval(sample, level) for sample in samples], 0.3)
    assert abs(covered - level) < 4.0 * np.sqrt(level * (1.0 - level) / TRIALS)


@pytest.mark.slow
def test_bca_covers_nearly_as_often_as_it_says_on_a_skewed_sample():
    rng = np.random.default_rng(4)
    keys = jax.random.split(jax.random.key(0), 400)
    intervals = [bca_interval(rng.gamma(1.0, size=60), 0.8, key, 400) for key in keys]
    # First order: an error of about 0.01 is left at 60 numbers beside that of 400 trials.
    assert abs(_covered(intervals, 1.0) - 0.8) < 0.01 + 4.0 * np.sqrt(0.8 * 0.2 / 400)


def test_wrong_requests_are_refused():
    with pytest.raises(SettingsError, match="interval: expected one of 'student'"):
        marginalized(interval="normal")
    with pytest.raises(SettingsError, match="resamples: expected a whole number of at least 100"):
        marginalized(interval="bca", resamples=10)
    one = {"step": [0, 1], "state": 0, "action": 0, "reward": 1.0, "next_state": 0}
    one = bd.Logs.from_dataframe(pl.DataFrame(one | {"episode_id": 0}))
    query = Query(one, bd.TabularPolicy([[1.0]]), 0.9)
    with pytest.raises(LogsError, match="at least two episodes"):
        marginalized(interval="bernstein").ask(query)
    with pytest.raises(SettingsError, match="give rng_key"):
        marginalized(interval="bca").ask(query)
    assert marginalized().ask(query)[1:3] == (None, None)


@pytest.mark.parametrize("name", ["wis:student", "wpdis:bca", "mis:hoeffding", "wdr:bernstein"])
@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_a_constant_added_to_all_rewards_moves_an_interval_and_leaves_its_width(name, gamma):
    rng = np.random.default_rng(0)
    n = 300
    frame = pl.DataFrame(
        {
            "episode_id": np.arange(n) // 5,
            "state": rng.integers(2, size=n),
            "action": rng.integers(2, size=n),
            "reward": rng.normal(size=n),
            "propensity": np.full(n, 0.5),
        }
    )
    policies = {"mostly first": TabularPolicy([[0.8, 0.2], [0.7, 0.3]])}
    ends = []
    for shift in (0.0, 10.0):
        logs = Logs.from_dataframe(frame.with_columns(pl.col("reward") + shift))
        found = estimate_all(name, logs, policies, gamma=gamma, rng_key=jax.random.key(0)).table
        ends.append(found.select("value", "lower", "upper").to_numpy() - shift)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-10)


def test_a_normalized_mean_has_the_spread_of_the_delta_method():
    rng = np.random.default_rng(1)
    n = 500
    action = rng.integers(2, size=n)
    reward = rng.binomial(1, 0.1, size=n) + 10.0
    frame = pl.DataFrame({"state": 0, "action": action, "reward": reward, "propensity": 0.5})
    policies = {"mostly first": TabularPolicy([[0.8, 0.2]])}
    found = estimate_all("wis:student", Logs.from_dataframe(frame), policies, gamma=0.0).table
    weight = np.where(action == 0, 1.6, 0.4)
    value = weight @ reward / weight.sum()
    error = weight * (reward - value) / weight.mean()
    reach = stats.t.ppf(0.95, n - 1) * stats.sem(error)
    assert found["value"][0] == pytest.approx(value, rel=1e-12)
    assert found["upper"][0] - value == pytest.approx(reach, rel=1e-9)
