"""Comparisons: equal models are ties, a pinned one loses, and ArviZ takes the scores."""

import arviz_stats
import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import BayesDiceError
from tests.linear_world import POLICIES, chain_log

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def world(plain):
    return plain.log(4, n_episodes=60, rewards="continuous"), plain.policies(4, 2)


@pytest.fixture(scope="module")
def beliefs(world):
    logs, policies = world
    given = {"gamma": 0.9, "rng_key": KEY, "draws": 50}
    return {
        "wide": bd.fit(logs, policies, **given),
        "pinned": bd.fit(logs, policies, **given, prior=bd.Prior(0.01, rare_share=0.0)),
    }


@pytest.fixture(scope="module")
def comparison(world, beliefs):
    models = {**beliefs, "again": {"prior": bd.Prior()}}
    return bd.compare(models, *world, rng_key=KEY)


def test_equal_models_are_a_tie_and_share_their_weight(comparison):
    np.testing.assert_array_equal(comparison.elpd["wide"].elpd_i, comparison.elpd["again"].elpd_i)
    assert comparison.table.loc["again", "elpd_diff"] == 0.0
    assert {"wide", "again"} <= set(comparison.ties)
    np.testing.assert_allclose(comparison.weights["wide"], comparison.weights["again"], atol=1e-6)
    assert "again is a tie" in comparison.answer or "wide is a tie" in comparison.answer


def test_the_table_is_arvizs_own_with_our_weights(comparison):
    own = arviz_stats.compare(comparison.elpd, method="pseudo-BMA", round_to="none")
    assert list(own.index) == list(comparison.table.index)
    np.testing.assert_array_equal(own["elpd"], comparison.table["elpd"])
    np.testing.assert_allclose(sum(comparison.weights.values()), 1.0)
    for name, elpd in comparison.elpd.items():
        m = elpd.elpd_i.size
        np.testing.assert_allclose(elpd.elpd, elpd.elpd_i.sum())
        np.testing.assert_allclose(elpd.se, np.sqrt(m) * elpd.elpd_i.std(ddof=1))
        assert comparison.table.loc[name, "weight"] == comparison.weights[name]


def test_on_its_own_episodes_a_weight_for_each_pair_meets_every_test(comparison):
    # Residuals psi then sum to 0, and the U-statistic of noise alone is tr(W Cov psi) / 2: half of
    # the tests, eight pairs and the value for each of two candidates, but for the ridge.
    row = comparison.table.loc["wide"]
    m = comparison.elpd["wide"].n_data_points
    assert 0.95 * 9.0 < row["elpd"] + row["p"] < 9.0 * m / (m - 1)


def test_scores_by_candidate_sum_to_those_of_all(comparison):
    m = comparison.elpd["wide"].elpd_i.size
    for name, row in comparison.by_policy.iterrows():
        np.testing.assert_allclose(m * row.sum(), comparison.elpd[name].elpd)


def test_the_figure_of_a_comparison_is_arvizs(comparison):
    import arviz_plots

    figure = arviz_plots.plot_compare(comparison.table, backend="none")
    assert figure.backend == "none"


@pytest.mark.slow
def test_features_that_cannot_express_the_ratio_lose():
    logs = chain_log(0, n_episodes=80, n_steps=10)
    models = {
        "right": {"features": bd.features.polynomial(2)},
        "pinned": {"features": bd.features.polynomial(2), "prior": bd.Prior(ratio_sd=0.001)},
    }
    tests = bd.features.polynomial(2)
    found = bd.compare(models, logs, POLICIES, gamma=0.8, rng_key=KEY, features=tests)
    assert found.best == "right"
    assert found.ties == ("right",)
    assert "pinned is worse by" in found.answer


@pytest.mark.parametrize(
    ("models", "given", "message"),
    [
        pytest.param(lambda b: {"one": b["wide"]}, {}, "at least two models", id="one"),
        pytest.param(lambda b: {"a": {}, "b": {}}, {}, "gamma: expected", id="no gamma"),
        pytest.param(lambda b: {**b, "x": {"gamma": 0.5}}, {}, "found gamma", id="own gamma"),
        pytest.param(lambda b: b, {"gamma": 0.9, "folds": 30}, "at least 90", id="folds"),
        pytest.param(lambda b: {**b, "x": 3}, {}, "a belief or a dict", id="number"),
        pytest.param(
            lambda b: {**b, "x": {"statistic": "variance"}}, {}, "statistic", id="statistic"
        ),
        pytest.param(
            lambda b: {**b, "x": {"on_termination": "absorb"}}, {}, "different things", id="absorb"
        ),
        pytest.param(
            lambda b: {**b, "x": {"model": bd.models.mean_deviation()}}, {}, "trained", id="trained"
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(models, given, message, world, beliefs):
    with pytest.raises(BayesDiceError, match=message):
        bd.compare(models(beliefs), *world, rng_key=KEY, **given)


def test_features_of_ones_own_must_be_given_as_they_were():
    logs = chain_log(1, n_episodes=20, n_steps=5)
    belief = bd.fit(
        logs, POLICIES, gamma=0.8, rng_key=KEY, features=bd.features.polynomial(1), draws=10
    )
    with pytest.raises(BayesDiceError, match="give its settings in place"):
        bd.compare({"a": belief, "b": {}}, logs, POLICIES, rng_key=KEY)


def test_a_log_of_several_rewards_is_refused(world):
    logs, policies = world
    frame = logs.to_dataframe().with_columns(cost=1.0)
    both = bd.Logs.from_dataframe(frame, reward=["reward", "cost"])
    models = {"one": {"prior": bd.Prior()}, "two": {"prior": bd.Prior(1.0)}}
    with pytest.raises(BayesDiceError, match=r"for a comparison, found reward, cost"):
        bd.compare(models, both, policies, rng_key=KEY, gamma=0.9)
