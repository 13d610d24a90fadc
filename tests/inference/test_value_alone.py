"""Beliefs of values alone against beliefs with all their weights, and what they leave out."""

import arviz as az
import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import PoliciesError, SettingsError
from bayesdice_ppl.fitting.settings import MOST_WEIGHTS

APPROXIMATE = {"constraint_probability": 0.02, "surrogate_bound": 0.05}
"""Found from the number of rows that vary, at most one or two too many, and not from the
eigenvalues of Sigma: with r rows off by 1 / r, and r is a few dozen here."""
UP_TO_A_CONSTANT = {"unseen_base"}
"""At a discount of 1 action values are."""


def frame_of(seed=0, *, n_states=9, n_actions=3, rows=1500, unseen=False):
    """One-step episodes of a world with random moves; rewards depend on both."""
    rng = np.random.default_rng(seed)
    moves = rng.integers(0, n_states, (n_states, n_actions, 4))
    state, action = rng.integers(0, n_states, rows), rng.integers(0, n_actions, rows)
    if unseen:
        action = np.where((state < 3) & (action == 2), 0, action)
    return pl.DataFrame(
        {
            "state": state,
            "action": action,
            "reward": state / n_states + 0.3 * action + rng.normal(size=rows),
            "next_state": moves[state, action, rng.integers(0, 4, rows)],
            "user_id": rng.integers(0, 60, rows),
            "terminated": rng.random(rows) < 0.1,
        }
    )


def policies_of(seed=1, *, n=3, n_states=9, n_actions=3):
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.full(n_actions, 2.0), (n, n_states))
    return {f"p{j}": bd.TabularPolicy(table) for j, table in enumerate(tables)}


def both(logs, policies, **options):
    key = jax.random.key(0)
    return [
        bd.fit(logs, policies, rng_key=key, numerics=bd.Numerics(weights=weights), **options)
        for weights in (True, False)
    ]


CASES = {
    "bandit": {"gamma": 0.0},
    "discounted": {"gamma": 0.9},
    "average reward": {"gamma": 1.0},
    "nearly one": {"gamma": 0.9995},
    "nearly one, absorbing": {"gamma": 0.9995, "on_termination": "absorb"},
    "absorbing": {"gamma": 0.9, "on_termination": "absorb"},
    "logging policy": {"gamma": 0.9, "include_logged": True},
    "groups": {"gamma": 0.5, "cluster": "user_id"},
    "apart": {"gamma": 0.9, "joint": False},
    "narrow": {"gamma": 0.9, "prior": bd.Prior(0.5, 0.5)},
    "without the rule": {"gamma": 0.9, "constraint": bd.Constraint(small_sample=False, xi=0.8)},
}


@pytest.mark.parametrize("unseen", [False, True], ids=["all logged", "some not logged"])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_every_number_is_that_of_the_belief_with_weights(options, unseen):
    logs = bd.Logs.from_dataframe(frame_of(unseen=unseen), actions=[0, 1, 2])
    whole, alone = both(logs, policies_of(), **options)
    assert "weights" in whole["posterior"]
    assert set(alone["posterior"].data_vars) == {"value"}
    assert set(whole["constant_data"].data_vars) == set(alone["constant_data"].data_vars)
    for name, expected in whole["constant_data"].data_vars.items():
        found = alone["constant_data"][name].to_numpy()
        if name in {"lam", "epsilon"}:
            # The rank of Sigma is bounded, and not counted.
            np.testing.assert_allclose(found, expected, rtol=0.05)
        elif name in APPROXIMATE:
            np.testing.assert_allclose(found, expected, rtol=0, atol=APPROXIMATE[name])
        elif expected.dtype.kind == "f" and not (
            options["gamma"] == 1.0 and name in UP_TO_A_CONSTANT
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=str(name))
    n_draws = alone["posterior/value"].size / len(BeliefView(alone).names)
    one, other = (belief["posterior/value"].to_numpy()[0] for belief in (whole, alone))
    errors = other.std(axis=0) / np.sqrt(n_draws)
    assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5 * errors)
    np.testing.assert_allclose(other.std(axis=0), one.std(axis=0), rtol=5 / np.sqrt(n_draws))


def test_known_rewards_and_their_law_are_kept():
    frame = frame_of().with_columns(reward=(pl.col("reward") > 0.7).cast(pl.Float64))
    logs = bd.Logs.from_dataframe(frame)
    for constraint in (bd.Constraint(), bd.Constraint(value_law="empirical")):
        prior = bd.Prior(rewards=None if constraint.value_law.needs_errors else "binary")
        options = {"gamma": 0.5, "prior": prior, "constraint": constraint}
        whole, alone = both(logs, policies_of(), **options)
        for name in ("guide_mean", "guide_sd", "degrees_of_freedom", "skewness", "correlation"):
            found, expected = (b["constant_data"][name].to_numpy() for b in (alone, whole))
            np.testing.assert_allclose(found, expected, rtol=1e-7, err_msg=name)


@pytest.fixture(scope="module")
def large():
    """1,500 pairs and three candidates: 18 million weights."""
    frame = frame_of(3, n_states=300, n_actions=5, rows=30_000).drop("user_id")
    policies = policies_of(4, n_states=300, n_actions=5)
    return bd.Logs.from_dataframe(frame), policies


def test_many_weights_are_left_out_by_default_and_the_belief_says_so(large):
    logs, policies = large
    belief = bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0))
    assert belief["posterior/value"].size * 1500 > MOST_WEIGHTS
    assert set(belief["posterior"].data_vars) == {"value"}
    assert "sample_stats" not in belief.children
    reason = BeliefView(belief).without_draws
    assert "1,500 pairs x 3 candidates" in reason
    assert "weights=True" in reason
    assert len(az.summary(belief)) == 3
    assert np.all(BeliefView(belief).constraint_probability > 0.9)
    assert bd.select(belief, bd.scores.regret(k=1)).order
    assert "p0" in str(bd.diagnose(belief, logs))


def test_a_belief_without_weights_is_saved_and_read(large, tmp_path):
    logs, policies = large
    belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(0))
    bd.save_belief(belief, tmp_path / "belief.nc")
    read = bd.load_belief(tmp_path / "belief.nc")
    assert BeliefView(read).without_draws == BeliefView(belief).without_draws
    assert bd.select(read, bd.scores.regret(k=1)).order


def test_small_beliefs_keep_their_weights():
    logs = bd.Logs.from_dataframe(frame_of())
    belief = bd.fit(logs, policies_of(), gamma=0.9, rng_key=jax.random.key(0))
    assert "weights" in belief["posterior"]
    assert BeliefView(belief).without_draws == ""


@pytest.mark.parametrize("gamma", [0.9, 0.9995])
def test_starts_without_a_logged_action_lose_mass_in_both(gamma):
    """One candidate takes only an action that was never logged in a state where episodes start."""
    frame = frame_of(n_states=4).filter((pl.col("state") != 0) | (pl.col("action") != 2))
    frame = frame.filter(pl.col("next_state") != 0).with_columns(terminated=pl.lit(True))
    tables = {name: policy.probabilities.copy() for name, policy in policies_of(n_states=4).items()}
    tables["p0"][0] = [0.0, 0.0, 1.0]
    policies = {name: bd.TabularPolicy(table) for name, table in tables.items()}
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1, 2])
    whole, alone = both(logs, policies, gamma=gamma, on_termination="absorb")
    sd = whole["constant_data/guide_sd"].to_numpy()
    for name in ("guide_mean", "guide_sd", "unseen_shift"):
        found, expected = (b["constant_data"][name].to_numpy() for b in (alone, whole))
        assert np.all(np.abs(found - expected) < 1e-3 * sd), name
    found, expected = (BeliefView(b).constraint_probability for b in (alone, whole))
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_what_pairs_never_logged_count_is_continuous_where_the_normalization_gets_a_row():
    logs = bd.Logs.from_dataframe(frame_of(unseen=True), actions=[0, 1, 2])
    key = jax.random.key(0)
    below, above = (
        bd.fit(logs, policies_of(), gamma=gamma, rng_key=key)["constant_data"]
        for gamma in (0.999, 0.9990001)
    )
    for name in ("unseen_base", "unseen_shift", "unseen_spread"):
        found, expected = below[name].to_numpy(), above[name].to_numpy()
        np.testing.assert_allclose(found, expected, rtol=5e-3, err_msg=name)


@pytest.mark.parametrize("sd", [0.05, 0.1, 0.3, 10.0])
def test_a_prior_that_is_too_narrow_shows_in_the_constraint(sd):
    logs = bd.Logs.from_dataframe(frame_of(rows=400))
    beliefs = both(logs, policies_of(), gamma=0.9, prior=bd.Prior(sd, 10.0))
    expected, found = (BeliefView(belief).constraint_probability for belief in beliefs)
    np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"inference": "svi"},
        {"constraint": bd.Constraint(penalty="squared")},
        {"constraint": bd.Constraint(lam=2.0)},
        {"cluster": "episode"},
        {"statistic": "variance"},
    ],
    ids=["svi", "penalty", "price", "episodes", "statistic"],
)
def test_weights_cannot_be_left_out_elsewhere(options):
    logs = bd.Logs.from_dataframe(frame_of())
    with pytest.raises(SettingsError, match="weights=False: expected the closed form"):
        bd.fit(
            logs,
            policies_of(),
            gamma=0.9,
            rng_key=jax.random.key(0),
            numerics=bd.Numerics(weights=False),
            **options,
        )


@pytest.mark.parametrize("weights", [True, False])
def test_a_candidate_without_any_logged_action_is_named(weights):
    frame = frame_of().filter(pl.col("action") < 2)
    never = bd.TabularPolicy(np.tile([0.0, 0.0, 1.0], (9, 1)))
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1, 2])
    with pytest.raises(PoliciesError, match="'never': expected a policy that takes a logged"):
        bd.fit(
            logs,
            policies_of() | {"never": never},
            gamma=0.9,
            rng_key=jax.random.key(0),
            numerics=bd.Numerics(weights=weights),
        )


def test_a_candidate_without_any_logged_action_rests_on_latents_at_a_discount_of_zero():
    frame = frame_of().filter(pl.col("action") < 2)
    never = bd.TabularPolicy(np.tile([0.0, 0.0, 1.0], (9, 1)))
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1, 2])
    whole, alone = both(logs, policies_of() | {"never": never}, gamma=0.0)
    for name in ("guide_mean", "guide_sd", "unseen_shift", "unseen_share"):
        found, expected = (b["constant_data"][name].to_numpy() for b in (alone, whole))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=name)


def test_a_prior_is_chosen_from_a_list_without_weights_too():
    logs = bd.Logs.from_dataframe(frame_of())
    belief = bd.fit(
        logs,
        policies_of(),
        gamma=0.5,
        rng_key=jax.random.key(0),
        prior=[bd.Prior(1.0), bd.Prior(10.0)],
        numerics=bd.Numerics(weights=False),
    )
    assert "weights" not in belief["posterior"]
    assert len(BeliefView(belief).regularization) == 2
