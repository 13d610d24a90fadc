"""The held-out loss by plain loops, and what is chosen by it."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import flat_settings, read_inputs
from bayesdice_ppl.inference.held_out import (
    deal_folds,
    fit_folds,
    held_out_losses,
    held_out_products,
)
from bayesdice_ppl.moments import MomentSettings
from tests.linear_world import POLICIES, TRUTH, chain_log

GAMMA = 0.9


def gathered(logs, policies, **given):
    settings = flat_settings(gamma=GAMMA, cluster="episode", small_sample=False, **given)
    return read_inputs(logs, policies, settings), settings


def test_the_loss_is_the_u_statistic_of_held_out_residuals(plain):
    logs, policies = plain.log(3, rewards="continuous"), plain.policies(5, 2)
    found, _ = gathered(logs, policies)
    rng = np.random.default_rng(2)
    n_cells, m = len(found.cells.count), logs.n_episodes
    ratios = rng.gamma(2.0, 0.5, (3, 2, 2, n_cells))
    values = rng.normal(size=(3, 2, 2))
    held_out = deal_folds(m, 2, jax.random.key(0))
    with jax.enable_x64(True):
        losses = held_out_losses(
            found.cells, found.candidates, ratios, values, held_out, MomentSettings(GAMMA)
        )
        losses = np.asarray(losses)
        products = held_out_products(
            found.cells, found.candidates, ratios, values, held_out, MomentSettings(GAMMA)
        )
        products = np.asarray(products).sum(axis=0)

    expected = np.zeros((3, m))
    for j, name in enumerate(policies):
        oracle = plain.problem(logs, policies[name], gamma=GAMMA)

        def psi_of(weight_of_row, value, episodes, oracle=oracle):
            n = sum(row["episode"] in episodes for row in oracle.rows)
            result = {}
            for e in range(m):
                total = np.zeros(len(oracle.c))
                for i, row in enumerate(oracle.rows):
                    if row["episode"] == e:
                        total += weight_of_row[i] * oracle.terms[i]
                total *= len(episodes) / n
                total[: len(oracle.pairs)] += (1.0 - GAMMA) * oracle.phi0[e]
                total[-1] -= value
                result[e] = total
            return result

        everyone = set(range(m))
        average = ratios[:, :, j].mean(axis=(0, 1))[found.cell_of_row]
        psi = np.array(list(psi_of(average, values[:, :, j].mean(), everyone).values()))
        covariance = np.cov(psi.T, bias=True)
        size = len(covariance)
        metric = np.linalg.inv(covariance + 1e-2 * np.trace(covariance) / size * np.eye(size))
        for v in range(3):
            for f in range(2):
                episodes = set(np.flatnonzero(held_out[f]).tolist())
                each = psi_of(ratios[v, f, j][found.cell_of_row], values[v, f, j], episodes)
                for e in episodes:
                    others = sum(each[o] for o in episodes - {e}) / (len(episodes) - 1)
                    expected[v, e] += 0.5 * each[e] @ metric @ others
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.einsum("vvm->vm", products), losses, rtol=1e-9)

    # A mixture of fits is a fit too, whose loss is the quadratic form of the products.
    weights = np.array([0.2, 0.5, 0.3])
    with jax.enable_x64(True):
        mixed = held_out_products(
            found.cells,
            found.candidates,
            np.concatenate([np.einsum("v,vfnc->fnc", weights, ratios)[None], ratios]),
            np.concatenate([np.einsum("v,vfn->fn", weights, values)[None], values]),
            held_out,
            MomentSettings(GAMMA),
        )
        # Its metric, too, is that of an average ratio, so that it is judged beside the others.
        mixed = np.asarray(mixed).sum(axis=(0, 3))
    np.testing.assert_allclose(mixed[0, 0], weights @ mixed[1:, 1:] @ weights, rtol=1e-9)


def test_a_part_of_the_log_is_fitted_as_a_log_of_its_own(plain):
    logs, policies = plain.log(8, rewards="continuous"), plain.policies(5, 2)
    found, settings = gathered(logs, policies)
    kept = np.arange(logs.n_episodes) % 3 > 0
    with jax.enable_x64(True):
        part = fit_folds(
            found.cells, found.candidates, kept[None], settings.form.moments, settings.prior
        )
    frame = logs.to_dataframe()
    frame = frame.filter(pl.Series(kept[logs.episode]))
    alone = bd.fit(
        bd.Logs.from_dataframe(frame),
        policies,
        gamma=GAMMA,
        rng_key=jax.random.key(0),
        inference="exact",
        cluster="transition",
        constraint=bd.Constraint(small_sample=False),
        draws=2,
    )
    np.testing.assert_allclose(
        np.asarray(part.value)[0], alone["constant_data/guide_mean"].values, rtol=1e-6
    )


def test_every_episode_is_held_out_once():
    held_out = deal_folds(23, 5, jax.random.key(1))
    np.testing.assert_array_equal(held_out.sum(axis=0), 1)
    assert sorted(held_out.sum(axis=1).tolist()) == [4, 4, 5, 5, 5]


@pytest.fixture(scope="module")
def chosen():
    logs = chain_log(0, n_episodes=100, n_steps=15)
    return bd.fit(
        logs,
        POLICIES,
        gamma=0.8,
        rng_key=jax.random.key(1),
        inference="exact",
        draws=50,
        features=[bd.features.polynomial(1), bd.features.polynomial(2)],
        prior=[bd.Prior(ratio_sd=0.01), bd.Prior(ratio_sd=10.0)],
    )


def test_features_that_can_express_the_ratio_beat_a_prior_that_pins_it(chosen):
    table = json.loads(chosen.attrs["regularization"])
    assert len(table) == 4
    best = [row for row in table if row["chosen"]]
    assert len(best) == 1
    assert best[0]["difference"] == 0.0
    assert best[0]["prior_sd"] == 10.0
    # A ratio of one everywhere is far off for policies that act otherwise.
    for row in table:
        if row["prior_sd"] == 0.01:
            assert row["difference"] > 0.0
        assert row["tie"] == (row["difference"] <= 2.0 * row["standard_error"])
    assert best[0]["features"] in chosen.attrs["settings"]


def test_diagnose_says_what_was_chosen(chosen):
    said = str(bd.diagnose(chosen))
    assert "regularization: polynomial(" in said
    assert "of 4 choices" in said


def test_the_belief_is_the_one_of_the_chosen_settings(chosen):
    best = next(row for row in json.loads(chosen.attrs["regularization"]) if row["chosen"])
    degree = 1 if "polynomial(1" in best["features"] else 2
    alone = bd.fit(
        chain_log(0, n_episodes=100, n_steps=15),
        POLICIES,
        gamma=0.8,
        rng_key=jax.random.key(1),
        inference="exact",
        draws=50,
        features=bd.features.polynomial(degree),
        prior=bd.Prior(ratio_sd=10.0),
    )
    np.testing.assert_array_equal(alone["posterior/value"], chosen["posterior/value"])
    distance = np.abs(alone["constant_data/guide_mean"].values - TRUTH)
    assert np.all(distance < 4.5 * alone["constant_data/guide_sd"].values)


def priors(*widths):
    return [bd.Prior(ratio_sd=width) for width in widths]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: {"features": []}, "features: expected at least one choice"),
        (lambda: {"prior": []}, "prior: expected at least one choice"),
        (lambda: {"prior": priors(1.0, 10.0), "numerics": bd.Numerics(folds=1)}, "at least 2"),
        (lambda: {"prior": priors(1.0, -1.0)}, "prior.ratio_sd"),
        (lambda: {"prior": priors(1.0, 10.0), "numerics": bd.Numerics(folds=20)}, "episodes"),
    ],
)
def test_wrong_lists_are_refused(given, message):
    logs = chain_log(1, n_episodes=20, n_steps=3)
    with pytest.raises(bd.errors.BayesDiceError, match=message):
        bd.fit(
            logs,
            POLICIES,
            gamma=0.8,
            rng_key=jax.random.key(0),
            **{"features": bd.features.polynomial(1), **given()},
        )
