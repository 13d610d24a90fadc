"""The forms of belief that are tried: the second is the library's; moments are what they are."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from benchmarks.skewness import FORMS, Shape, Sums, believe, ends, play, tail_share

STUDENT, LIBRARY, SKEWED, ADAPTIVE = FORMS[:4]


def sums_of(*arms):
    """Sums of one log, from the rewards of each arm."""
    off = [np.array(arm) - np.mean(arm) for arm in arms]
    powers = [[np.sum(each**power) for each in off] for power in (2, 3, 4)]
    counts, means = [len(arm) for arm in arms], [np.mean(arm) for arm in arms]
    return Sums(*(np.array([row], dtype=np.float64) for row in (counts, means, *powers)))


def test_the_second_form_is_what_fit_believes():
    rng = np.random.default_rng(3)
    arms = [rng.exponential(1.0, size=size) for size in (9, 5)]
    rows = [(0, arm, reward) for arm, given in enumerate(arms) for reward in given]
    frame = pl.DataFrame(rows, schema=["state", "action", "reward"], orient="row")
    constants = bd.fit(
        bd.Logs.from_dataframe(frame),
        {"it": bd.TabularPolicy([[0.7, 0.3]])},
        gamma=0.0,
        rng_key=jax.random.key(0),
        inference="exact",
        draws=2,
    )["constant_data"]
    found = believe(sums_of(*arms), 0.7, LIBRARY)
    # Up to the prior, which is wide.
    assert constants["guide_mean"].item() == pytest.approx(found.mean[0], rel=1e-3)
    assert constants["guide_sd"].item() == pytest.approx(found.scale[0], rel=1e-2)
    df = constants["degrees_of_freedom"].item()
    assert df == pytest.approx(found.degrees_of_freedom[0], rel=1e-3)
    assert constants["skewness"].item() == pytest.approx(found.skewness[0], rel=0.02)


def test_two_values_leave_no_tails_and_a_normal_leaves_its_own():
    two = tail_share(sums_of([0.0] * 3 + [1.0] * 9, [0.0] * 10 + [1.0] * 2))
    # Only the two normal rewards that the pool is weighted with.
    assert 0.0 < two[0] < 0.1
    rng = np.random.default_rng(0)
    normal = tail_share(sums_of(rng.normal(size=40_000), rng.normal(size=40_000)))
    # Fourth powers of 80,000 normals: a standard error of about 0.017.
    assert normal[0] == pytest.approx(1.0, abs=0.08)


def test_skewness_bends_towards_the_long_tail():
    # Nine wins and one loss: what is unknown is how much worse the arm is.
    sums = sums_of([1.0] * 9 + [0.0], [1.0] * 5 + [0.0] * 5)
    plain, bent = (believe(sums, 1.0, form) for form in (STUDENT, SKEWED))
    assert bent.skewness[0] < -0.5
    low, high = ends(bent)[0, [4, 9]] - bent.mean[0]
    assert -low > 1.2 * high
    low, high = ends(plain)[0, [4, 9]] - plain.mean[0]
    assert -low == pytest.approx(high)


def test_a_normal_score_takes_the_skewness_that_it_is_given():
    rng = np.random.default_rng(1)
    gamma = (rng.gamma(4.0, size=400_000) - 4.0) / 2.0
    given = Shape(*(np.array([number]) for number in (0.0, 1.0, np.inf, 1.0)))
    found = ends(given)[0]
    # A gamma of shape 4 has skewness 1; its quantiles by simulation, and 0.01 by approximation.
    tails = [0.25, 0.15, 0.1, 0.05, 0.025, 0.75, 0.85, 0.9, 0.95, 0.975]
    np.testing.assert_allclose(found, np.quantile(gamma, tails), atol=0.02)


def test_arms_are_played_as_they_are_told():
    sums = play("exponential", (0.75, 0.25), 0.25, 100, 4000, 7)
    share = sums.pulls[:, 0] / sums.pulls.sum(axis=1)
    assert share.mean() == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / 400_000))
    assert sums.mean[:, 0].mean() == pytest.approx(0.75, abs=5 * 0.75 / np.sqrt(4000 * 24))
    spread = sums.second[:, 1] / (sums.pulls[:, 1] - 1)
    assert spread.mean() == pytest.approx(0.25**2, rel=0.03)
