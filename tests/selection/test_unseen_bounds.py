"""Choosing within bounds on what was never logged, against every corner by brute force."""

import itertools

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import UnseenParts
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.selection.turning import turning
from bayesdice_ppl.selection.unseen_bounds import corners, undecided

KEY = jax.random.key(0)


def shop(offset=0.0):
    """Two shelves of three items; the third was never shown on the second shelf."""
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=300)
    action = np.where(state == 0, rng.integers(3, size=300), rng.integers(2, size=300))
    means = np.array([[0.2, 0.5, 0.4], [0.6, 0.3, 0.0]])
    reward = (rng.random(300) < means[state, action]).astype(float) + offset
    frame = pl.DataFrame({"state": state, "action": action, "reward": reward})
    tables = {
        "known": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
        "daring": [[0.0, 1.0, 0.0], [0.2, 0.0, 0.8]],
        "bold": [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]],
        "poor": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    }
    policies = {name: bd.TabularPolicy(table) for name, table in tables.items()}
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1, 2])
    return frame, tables, bd.fit(logs, policies, gamma=0.0, rng_key=KEY, draws=2000)


@pytest.fixture(scope="module")
def belief():
    return shop()[2]


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_values_in_the_corners_are_those_of_counting(offset):
    frame, tables, belief = shop(offset)
    names = tuple(tables)
    parts = bd.belief.read_unseen(belief, names)
    values = belief["posterior/value"].to_numpy()[0]
    state, action, reward = (frame[name].to_numpy() for name in frame.columns)
    share = np.bincount(state) / 300
    low, high, *_ = corners(values, parts, (offset, offset + 1), names)
    for corner, pays in ((low, 0), (high, 1)):
        mean = np.full((2, 3), offset + pays)
        for s, a in itertools.product(range(2), range(3)):
            here = (state == s) & (action == a)
            if here.any():
                mean[s, a] = reward[here].mean()
        expected = (np.array(list(tables.values())) * mean).sum(axis=2) @ share
        # The prior of the ratio is 10, and draws have an error of their own.
        error = 5.0 * values.std(axis=0) / np.sqrt(len(values)) + 1e-3
        assert (np.abs(corner.values.mean(axis=0) - expected) < error).all()


@pytest.mark.parametrize("bounds", [(-5.0, 5.0), (-5.0, 0.0), (0.0, 1.0)])
def test_the_highest_regret_is_lowest(belief, bounds):
    score = bd.scores.regret(k=1)
    chosen = bd.select(belief, score, unseen="bounds", bounds=bounds)
    names = belief["posterior"]["policy"].values.tolist()
    highest = {name: max_regret(belief, name, bounds) for name in names}
    assert chosen.launch == [min(highest, key=highest.get)]
    assert chosen.expected_loss == pytest.approx(min(highest.values()), rel=1e-9)
    assert any("cannot be told apart" in note for note in chosen.notes)
    assert "worst" in chosen.answer


def max_regret(belief, name, bounds):
    """Expected regret of one candidate at each end of the only pair never logged."""
    names = belief["posterior"]["policy"].values.tolist()
    parts = bd.belief.read_unseen(belief, tuple(names))
    rest = parts.without(belief["posterior/value"].to_numpy()[0])
    losses = []
    for worth in bounds:
        values = rest + parts.mass[:, 0] * worth
        losses.append((values.max(axis=1) - values[:, names.index(name)]).mean())
    return max(losses)


def test_narrow_bounds_decide_and_say_so(belief):
    chosen = bd.select(belief, bd.scores.regret(k=1), unseen="bounds", bounds=(0.9, 1.0))
    assert chosen.launch == ["bold"]
    assert any("every pair of candidates is told apart" in note for note in chosen.notes)


def test_pairs_that_either_may_win_by_brute_force():
    rng = np.random.default_rng(1)
    mass = rng.uniform(0.0, 0.2, size=(5, 3)) * (rng.random((5, 3)) < 0.6)
    mean, zero = rng.normal(size=5) * 0.2, np.zeros(5)
    parts = UnseenParts(mass, mean, mean, zero, np.zeros((5, 5)))
    found = undecided(np.tile(mean, (4, 1)), parts, (-1.0, 2.0))
    expected = []
    for i, j in itertools.combinations(range(5), 2):
        gaps = [
            mean[i] - mean[j] + (mass[i] - mass[j]) @ np.array(worth)
            for worth in itertools.product((-1.0, 2.0), repeat=3)
        ]
        if min(gaps) < 0.0 < max(gaps):
            expected.append((i, j))
    assert found == expected
    assert 0 < len(expected) < 10


def test_the_probability_of_another_choice_is_the_normal_one():
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.3], [0.3, 0.5]])
    values = rng.multivariate_normal([0.4, 0.0], covariance, size=200_000)
    latents = np.array([[0.5, 0.1], [0.1, 0.2]])
    parts = UnseenParts(np.ones((2, 1)), np.zeros(2), np.zeros(2), np.zeros(2), latents)
    from scipy.stats import norm

    expected = norm.sf((values.mean(axis=0) @ [1, -1]) / np.sqrt(0.5 + 0.2 - 0.2))
    error = np.sqrt(expected * (1 - expected) / len(values))
    assert abs(turning(values, parts, 1) - expected) < 4.5 * error


def test_what_does_not_go_together_is_refused(belief):
    score = bd.scores.regret(k=1)
    with pytest.raises(SettingsError, match="unseen: expected one of"):
        bd.select(belief, score, unseen="maybe")
    with pytest.raises(SettingsError, match="no use for bounds"):
        bd.select(belief, score, bounds=(0.0, 1.0))
    for bounds in (None, 3.0, (1.0, 0.0), (0.0, float("nan")), (0.0, 1.0, 2.0)):
        with pytest.raises(SettingsError, match="lowest and the highest reward"):
            bd.select(belief, score, unseen="bounds", bounds=bounds)
    plain = bd.belief.make_belief(np.random.default_rng(0).normal(size=(50, 2)), ["a", "b"])
    with pytest.raises(BeliefError, match="latents"):
        bd.select(plain, score, unseen="bounds", bounds=(0.0, 1.0))


def test_bounds_are_for_mean_rewards_of_bandits():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(40), 3),
            "state": rng.integers(2, size=120),
            "action": rng.integers(2, size=120),
            "reward": rng.random(120),
        }
    )
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1, 2])
    table = {
        "a": bd.TabularPolicy([[0.2, 0.2, 0.6]] * 2),
        "b": bd.TabularPolicy([[0.5, 0.5, 0]] * 2),
    }
    given = {"rng_key": KEY, "draws": 100}
    score = bd.scores.regret(k=1)
    within = {"unseen": "bounds", "bounds": (0.0, 1.0)}
    with pytest.raises(SettingsError, match="expected a bandit"):
        bd.select(bd.fit(logs, table, gamma=0.9, **given), score, **within)
    with pytest.raises(SettingsError, match="mean rewards"):
        bd.select(bd.fit(logs, table, gamma=0.0, statistic="cvar(0.5)", **given), score, **within)
    several = bd.fit(logs, table, gamma=0.0, statistic=["mean", "cvar(0.5)"], **given)
    with pytest.raises(SettingsError, match="belief's value"):
        bd.select(several, score, statistic="cvar(0.5)", **within)
    # The paper's form has no latents, and candidates that take unlogged actions.
    with pytest.raises(BeliefError, match="latents"):
        bd.select(bd.fit(logs, table, gamma=0.0, preset="paper", **given), score, **within)


def test_a_belief_of_some_candidates_has_their_own_covariance(belief):
    names = ("bold", "known", "daring")
    whole = bd.belief.read_unseen(belief, names)
    part = bd.belief.read_unseen(belief.sel(policy=list(names)), names)
    np.testing.assert_array_equal(part.covariance, whole.covariance)
    np.testing.assert_array_equal(whole.covariance, whole.covariance.T)
    np.testing.assert_array_equal(part.mass, whole.mass)
