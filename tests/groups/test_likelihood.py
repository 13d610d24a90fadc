"""Log likelihoods: they sum to the factor, follow plain loops, and leave an episode out."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import BayesDiceError
from tests.linear_world import POLICIES, chain_log

KEY = jax.random.key(0)
GAMMA = 0.9
SITE = "log_likelihood/chance_constraint"


def factor_of(belief):
    """-lambda / epsilon times the loss of each draw, as the fit recorded it."""
    price = (belief["constant_data/lam"] / belief["constant_data/epsilon"]).values
    return -price * belief["sample_stats/loss"].values


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        pytest.param({}, 1e-5, id="default"),
        pytest.param({"on_termination": "absorb"}, 1e-5, id="absorb"),
        pytest.param({"preset": "paper"}, 1e-5, id="paper"),
        # Its ratios are nearly exact, and single precision rounds them.
        pytest.param({"include_logged": True}, 1e-3, id="logged"),
    ],
)
def test_shares_of_labels_sum_to_the_factor(options, tolerance, plain):
    logs, policies = plain.log(4, n_episodes=40), plain.policies(4, 2)
    belief = bd.fit(logs, policies, gamma=GAMMA, rng_key=KEY, draws=50, **options)
    for by in ("episode", "transition"):
        found = bd.add_log_likelihood(belief, logs, policies, by=by)[SITE]
        assert found.dtype == np.float32
        assert found.dims == ("chain", "draw", "policy", by)
        expected = factor_of(belief)
        atol = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(found.sum(by), expected, atol=atol)


@pytest.mark.parametrize("link", ["identity", "exp"])
def test_shares_of_features_sum_to_the_factor(link):
    logs, features = chain_log(1, n_episodes=30, n_steps=8), bd.features.polynomial(2)
    chosen = {"features": features, "model": bd.models.linear(link)}
    belief = bd.fit(logs, POLICIES, gamma=0.8, rng_key=KEY, draws=50, **chosen)
    found = bd.add_log_likelihood(belief, logs, POLICIES, **chosen)[SITE]
    np.testing.assert_allclose(found.sum("episode"), factor_of(belief), rtol=1e-4, atol=1e-4)


def test_latents_of_pairs_never_logged_are_no_part_of_it():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {"state": [0, 1] * 20, "action": [0, 0, 1, 0] * 10, "reward": rng.normal(size=40)}
    )
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1])
    policies = {"a": bd.TabularPolicy(np.full((2, 2), 0.5))}
    belief = bd.fit(logs, policies, gamma=0.0, rng_key=KEY, draws=200)
    assert "unseen_mass" in belief["constant_data"]
    found = bd.add_log_likelihood(belief, logs, policies)[SITE]
    np.testing.assert_allclose(found.sum("episode"), factor_of(belief), rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def known(plain):
    """A belief in its plain form, its logs, and the oracle of its first candidate."""
    frame = plain.log(6, n_episodes=60, rewards="continuous").to_dataframe()
    # A fit sees rewards from their mean, so that the oracle does too.
    logs = bd.Logs.from_dataframe(frame.with_columns(pl.col("reward") - pl.col("reward").mean()))
    policies = plain.policies(4, 2)
    constraint = bd.Constraint(small_sample=False)
    prior = bd.Prior(rare_share=0.0)
    given = {"gamma": GAMMA, "rng_key": KEY, "constraint": constraint, "prior": prior}
    belief = bd.fit(logs, policies, draws=1000, cluster="transition", **given)
    return logs, policies, belief, plain.problem(logs, policies["p0"], gamma=GAMMA)


def test_a_share_is_what_leaving_the_episode_out_takes_from_the_factor(known):
    logs, policies, belief, oracle = known
    found = bd.add_log_likelihood(belief, logs, policies)[SITE].values[0, :, 0]
    draws = belief["posterior/weights"].values[0, :, 0].astype(float)
    values = belief["posterior/value"].values[0, :, 0]
    # Sigma as it was frozen: at the first estimate, by plain loops.
    prior_mean, prior_sd = oracle.prior()
    noise = oracle.covariance(np.ones(len(oracle.pairs))) / oracle.n
    gain = np.diag(prior_sd**2) @ oracle.G.T
    inverse = np.linalg.pinv(oracle.G @ gain + noise, rcond=1e-12)
    mean = prior_mean - gain @ inverse @ (oracle.G @ prior_mean + oracle.c)
    noise = oracle.covariance(mean[:-1]) / oracle.n
    covariance = noise * oracle.n
    scale = np.sqrt(np.diag(covariance))
    spread, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    axes = axes[:, spread > 1e-3] / scale[:, None]
    metric = (axes / spread[spread > 1e-3]) @ axes.T
    rows = np.array([row["episode"] for row in oracle.rows])
    taken, shares, factor = [], [], factor_of(belief)[0, :, 0]
    for s in range(0, 1000, 50):
        terms = (draws[s] * oracle.active)[oracle.pair_of_row][:, None] * oracle.terms
        whole = terms.mean(axis=0) + oracle.c
        whole[-1] -= values[s]
        full = -oracle.n / 2 * whole @ metric @ whole
        for e in range(0, oracle.m, 10):
            kept = rows != e
            left = terms[kept].mean(axis=0) + oracle.c
            # The start counts for as much of the rest as the rows do: m - 1 but for their number.
            rest = oracle.m * kept.mean()
            start = (oracle.phi0bar - oracle.phi0[e]) / rest
            left[: len(oracle.pairs)] += oracle.entry(draws[s]) * start
            left[-1] -= values[s]
            without = -kept.sum() / 2 * left @ metric @ left
            # What is of second order in one episode is no part of its share.
            second = kept.sum() / 2 * (left - whole) @ metric @ (left - whole)
            # What no rows vary in is shared evenly.
            evenly = (1.0 - kept.mean()) * (factor[s] - full)
            taken.append(full - without - second + evenly)
            shares.append(found[s, e])
    np.testing.assert_allclose(shares, taken, atol=0.01 * np.std(taken))


def test_weighing_draws_by_it_scales_the_price(known):
    logs, policies, belief, _ = known
    share = 1.2
    found = bd.add_log_likelihood(belief, logs, policies)
    total = found[SITE].sum("episode").values[0, :, 0].astype(float)
    weight = np.exp((share - 1.0) * (total - total.max()))
    weight /= weight.sum()
    value = found["posterior/value"].values[0, :, 0]
    mean = weight @ value
    sd = np.sqrt(weight @ (value - mean) ** 2)
    # lambda / epsilon times 1.2: under so wide a prior the sd shrinks by its root.
    expected = belief["constant_data/guide_sd"].values[0] / np.sqrt(share)
    effective = 1.0 / np.sum(weight**2)
    assert abs(sd - expected) < 5 * expected / np.sqrt(2 * effective)
    assert abs(mean - belief["constant_data/guide_mean"].values[0]) < 5 * expected / np.sqrt(
        effective
    )


def test_past_a_thousand_draws_every_so_many_is_kept_and_noted(plain):
    logs, policies = plain.log(4), plain.policies(4, 2)
    belief = bd.fit(logs, policies, gamma=GAMMA, rng_key=KEY, draws=3000)
    found = bd.add_log_likelihood(belief, logs, policies)
    assert found["posterior/value"].sizes["draw"] == found[SITE].sizes["draw"] == 1000
    assert "1,000 of its 3,000 draws" in found.attrs["notes"]
    assert belief["posterior/value"].sizes["draw"] == 3000
    assert "log_likelihood" not in belief.children
    np.testing.assert_allclose(found[SITE].sum("episode"), factor_of(found), rtol=1e-4, atol=1e-4)


def test_what_cannot_be_followed_back_is_refused(plain):
    logs, policies = plain.log(4), plain.policies(4, 2)
    given = {"gamma": GAMMA, "rng_key": KEY, "draws": 50}
    belief = bd.fit(logs, policies, **given)
    with pytest.raises(BayesDiceError, match="expected one from these logs"):
        bd.add_log_likelihood(belief, plain.log(5), policies)
    with pytest.raises(BayesDiceError, match="about p0, p1, p2"):
        bd.add_log_likelihood(belief, logs, plain.policies(4, 3))
    with pytest.raises(BayesDiceError, match="by: expected one of episode"):
        bd.add_log_likelihood(belief, logs, policies, by="user")
    light = bd.fit(logs, policies, **given, numerics=bd.Numerics(weights=False))
    with pytest.raises(BayesDiceError, match="draws of the ratio"):
        bd.add_log_likelihood(light, logs, policies)
    other = belief.copy()
    flat = json.loads(belief.attrs["settings"]) | {"surrogate": "cvar(0.3)", "inference": "svi"}
    other.attrs["settings"] = json.dumps(flat)
    with pytest.raises(BayesDiceError, match="Markov's surrogate"):
        bd.add_log_likelihood(other, logs, policies)
    tail = bd.fit(logs, policies, **given, statistic="variance")
    with pytest.raises(BayesDiceError, match="statistic"):
        bd.add_log_likelihood(tail, logs, policies)
