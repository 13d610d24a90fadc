"""The value of trying a pair against closed forms and nested Monte Carlo."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import bayesdice_ppl as bd
from bayesdice_ppl.belief import OwnVariables, make_belief
from bayesdice_ppl.errors import BeliefError, ScoreError, SettingsError
from bayesdice_ppl.selection.known_shift import saved_by_shift, split_off
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import no_rules

Z = 4.5
MEAN = np.array([0.30, 0.25, 0.0, -0.1])
LOGGED = np.diag([0.04, 0.01, 0.02, 0.03]) + 0.01
"""Covariance of what comes from the logged part."""
MASS = np.array(
    [[0.5, 0.0, 0.2, 0.0], [0.1, 0.3, 0.2, 0.0], [0.0, 0.4, 0.2, 0.0], [0.2, 0.6, 0.2, 0.0]]
)
"""The third pair is taken alike by all, the fourth by none."""
SPREAD = 0.8


def belief_of(mean, logged, mass, spread, n_draws=8_000, alike=None, seed=0):
    """A belief with independent normal worths of the pairs, of one sd."""
    latents = spread**2 * mass @ mass.T
    n, n_pairs = mass.shape
    alike = np.ones((n, n)) if alike is None else alike
    covariance = logged + alike * latents
    values = np.random.default_rng(seed).multivariate_normal(mean, covariance, n_draws)
    labels = np.array([str(u) for u in range(n_pairs)])
    return make_belief(
        values,
        [f"p{j}" for j in range(n)],
        own=OwnVariables(coords={"unseen_pair": labels.tolist()}),
        guide_mean=mean,
        unseen_mass=mass,
        unseen_base=np.zeros(n),
        unseen_shift=np.zeros(n),
        unseen_share=np.diag(latents) / np.diag(covariance),
        unseen_covariance=alike * latents,
        unseen_move=spread * mass,
        unseen_alike=alike,
        unseen_state=labels,
        unseen_action=labels,
        settings={"gamma": 0.0, "statistic": ["mean"]},
    )


def worth(found):
    columns = ("state", "value_of_trying", "standard_error")
    return {state: (value, error) for state, value, error in found.table[columns].iter_rows()}


@pytest.mark.parametrize("apart", [0.0, 0.1, 0.6])
def test_two_candidates_in_closed_form(apart):
    """E max of two normals is mu1 Phi(d) + mu2 Phi(-d) + theta phi(d), d = (mu1 - mu2) / theta."""
    mean = np.array([apart, 0.0])
    mass = np.array([[0.5, 0.2], [0.1, 0.2]])
    logged = np.array([[0.05, 0.02], [0.02, 0.03]])
    found = worth(bd.value_of_trying(belief_of(mean, logged, mass, 1.0), bd.scores.regret(k=1)))
    theta = 0.5 - 0.1  # what the first pair, of sd 1, moves their difference by
    d = apart / theta
    largest = mean[0] * norm.cdf(d) + mean[1] * norm.cdf(-d) + theta * norm.pdf(d)
    value, error = found["0"]
    # Strata of a quarter sd take up to a hundredth.
    assert abs(value - (largest - apart)) < Z * error + 0.01 * largest
    assert found["1"] == (0.0, 0.0)


def nested(score, mean, logged, mass, spread, pair, rankings):
    """The value by brute force: worths, and for each of them fresh draws of all else."""
    rng = np.random.default_rng(5)
    others = spread**2 * (mass @ mass.T - np.outer(mass[:, pair], mass[:, pair]))
    inside, n_inner = np.linalg.cholesky(logged + others), 2_000
    rest = rng.normal(size=(n_inner, len(mean))) @ inside.T
    rest = np.concatenate([rest, -rest])
    given = []
    for x in norm.ppf((np.arange(200) + 0.5) / 200):
        losses = score.losses(mean + x * spread * mass[:, pair] + rest, rankings)
        given.append(losses.mean(axis=1))
    given = np.array(given)
    return given.mean(axis=0).min() - given.min(axis=1).mean()


@pytest.mark.parametrize(("name", "k"), [("regret", 1), ("regret", 2), ("precision", 2)])
def test_four_candidates_by_nested_monte_carlo(name, k):
    from itertools import permutations

    score = getattr(bd.scores, name)(k)
    found = worth(bd.value_of_trying(belief_of(MEAN, LOGGED, MASS, SPREAD), score))
    rankings = np.array(list(permutations(range(4))))
    for pair in range(2):
        exact = nested(score, MEAN, LOGGED, MASS, SPREAD, pair, rankings)
        value, error = found[str(pair)]
        # The brute force has twice as few draws of its own, each with its mirror image.
        assert abs(value - exact) < Z * np.sqrt(3.0) * error + 0.01 * exact
        assert exact > 0.001
    # All take the third alike, nobody the fourth.
    assert found["2"] == found["3"] == (0.0, 0.0)


def test_the_rest_has_the_covariance_that_is_left_and_none_with_the_cause():
    values = np.random.default_rng(1).normal(size=(500, 3)) @ np.array(
        [[1.0, 0.2, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 0.5]]
    )
    total = np.cov(values.T, bias=True)
    direction = np.array([0.3, -0.1, 0.2])
    shift = split_off(values, direction)
    np.testing.assert_allclose(shift.direction, direction, atol=1e-12)
    left = total - np.outer(direction, direction)
    np.testing.assert_allclose(np.cov(shift.rest.T, bias=True), left, atol=1e-12)
    np.testing.assert_allclose(shift.at(2.0).mean(axis=0), values.mean(axis=0) + 2 * direction)


def test_no_more_is_known_than_varies():
    """A cause that is longer than the draws allow is all that they vary along it."""
    values = np.random.default_rng(2).normal(size=(400, 2)) * [1.0, 0.5]
    shift = split_off(values, np.array([0.0, 3.0]))
    total = np.cov(values.T, bias=True)
    left = np.linalg.eigvalsh(np.cov(shift.rest.T, bias=True))
    assert left[0] == pytest.approx(0.0, abs=1e-12)
    assert shift.direction[1] <= np.sqrt(total[1, 1]) * (1 + 1e-12)
    constant = split_off(np.ones((200, 2)), np.array([1.0, 0.0]))
    assert not constant.direction.any()


def test_luck_is_no_gain():
    """Twenty candidates alike, moved by next to nothing: judged on others, nothing is saved."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(1_000, 20))
    problem = RankingProblem(values, bd.scores.regret(1), no_rules(20))
    present = (int(values.mean(axis=0).argmax()),)
    saved = saved_by_shift(problem, present, 1e-3 * rng.normal(size=20))
    assert abs(saved.mean()) <= Z * saved.std() / np.sqrt(len(saved))


def test_worths_that_differ_between_candidates_may_be_worth_knowing():
    """Taken alike by two, but worth other things to them: their difference moves by this sd."""
    alike, mass = np.array([[1.0, 0.2], [0.2, 1.0]]), np.array([[0.4], [0.4]])
    belief = belief_of(np.array([0.1, 0.0]), 0.01 * np.eye(2), mass, 1.0, alike=alike)
    value, error = worth(bd.value_of_trying(belief, bd.scores.regret(1)))["0"]
    theta = 0.4 * np.sqrt(2.0 - 2.0 * 0.2)
    exact = theta * norm.pdf(0.1 / theta) - 0.1 * norm.cdf(-0.1 / theta)
    assert abs(value - exact) < Z * error + 0.01 * exact


KEY = jax.random.key(0)


def shelves():
    """Two shelves of three items; the third was never shown on the second shelf."""
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=300)
    action = np.where(state == 0, rng.integers(3, size=300), rng.integers(2, size=300))
    means = np.array([[0.2, 0.5, 0.4], [0.6, 0.3, 0.0]])
    reward = (rng.random(300) < means[state, action]).astype(float)
    frame = pl.DataFrame({"state": state, "action": action, "reward": reward})
    return bd.Logs.from_dataframe(frame, actions=[0, 1, 2])


TABLES = {
    "known": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    "daring": [[0.0, 1.0, 0.0], [0.4, 0.0, 0.6]],
    "bold": [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]],
}


def test_of_a_fit_it_is_the_closed_form_of_its_own_numbers():
    policies = {name: bd.TabularPolicy(TABLES[name]) for name in ("known", "bold")}
    belief = bd.fit(shelves(), policies, gamma=0.0, rng_key=KEY, draws=8_000)
    found = bd.value_of_trying(belief, bd.scores.regret(k=1))
    row = found.table.row(0, named=True)
    assert (row["state"], row["action"], row["taken_by"]) == ("1", "2", "bold")
    # The only pair: what it moves "bold" by is all that its latents vary.
    known = belief["constant_data"]
    theta = float(np.sqrt(known["unseen_covariance"].values[1, 1]))
    assert known["unseen_move"].values[1, 0] == pytest.approx(theta, rel=1e-9)
    mean = belief["posterior/value"].mean(("chain", "draw")).values
    apart = abs(mean[1] - mean[0])
    exact = theta * norm.pdf(apart / theta) - apart * norm.cdf(-apart / theta)
    assert abs(row["value_of_trying"] - exact) < Z * row["standard_error"] + 0.01 * theta
    assert row["value_of_trying"] > 0.0
    assert "action '2' in state '1' is worth would save" in found.answer
    assert str(found).count("\n") == 3
    assert "<table>" in found._repr_html_()


def test_pairs_left_out_are_told_and_order_does_not_matter():
    belief = belief_of(MEAN, LOGGED, MASS, SPREAD, n_draws=400)
    found = bd.value_of_trying(belief, bd.scores.regret(k=1), most=1)
    assert found.left_out == 3
    assert "3 more pairs move the candidates apart less" in str(found)
    order = [2, 0, 3, 1]
    turned = belief_of(MEAN, LOGGED, MASS, SPREAD, n_draws=400).isel(policy=order)
    every = bd.value_of_trying(belief, bd.scores.regret(k=1))
    again = bd.value_of_trying(turned, bd.scores.regret(k=1))
    assert again.table["state"].to_list() == every.table["state"].to_list()
    np.testing.assert_allclose(again.table["value_of_trying"], every.table["value_of_trying"])


def test_where_nothing_is_unlogged_there_is_nothing_to_try():
    policies = {"known": bd.TabularPolicy(TABLES["known"])}
    policies["other"] = bd.TabularPolicy([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    belief = bd.fit(shelves(), policies, gamma=0.0, rng_key=KEY, draws=100)
    found = bd.value_of_trying(belief, bd.scores.regret(k=1))
    assert len(found.table) == 0
    assert str(found).startswith("No candidate takes a pair")
    assert str(found) in found._repr_html_()


def test_what_does_not_have_the_pairs_is_refused():
    score = bd.scores.regret(k=1)
    plain = make_belief(np.random.default_rng(0).normal(size=(200, 2)), ["a", "b"])
    with pytest.raises(BeliefError, match="pairs of state and action never"):
        bd.value_of_trying(plain, score)
    with pytest.raises(BeliefError, match="at least 100 draws, found 50"):
        bd.value_of_trying(belief_of(MEAN, LOGGED, MASS, SPREAD, n_draws=50), score)
    with pytest.raises(SettingsError, match="most: expected"):
        bd.value_of_trying(plain, score, most=0)
    with pytest.raises(ScoreError, match="Leave out risk="):
        bd.value_of_trying(plain, bd.scores.regret(1, risk=bd.risk.cvar(0.1)))
    belief = belief_of(MEAN, LOGGED, MASS, SPREAD, n_draws=200)
    belief.attrs["settings"] = '{"gamma": 0.0, "statistic": ["cvar(0.5)"]}'
    with pytest.raises(SettingsError, match="mean rewards"):
        bd.value_of_trying(belief, score)
