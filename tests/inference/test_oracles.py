"""The closed form against five worked cases, computed elsewhere by a dense model of the log."""

import jax
import numpy as np
import pytest

from bayesdice_ppl.fitting import fit_flat
from tests.marks import slow

CASES = ("bandit", "frozen_lake_10", "frozen_lake_50", "garnet_absorb", "garnet_average")


@pytest.fixture(
    scope="module", params=[each if each != "frozen_lake_10" else slow(each) for each in CASES]
)
def fitted(request, worked_case):
    """(case, its belief in closed form)."""
    case = worked_case(request.param)
    belief = fit_flat(case.logs, case.policies, rng_key=jax.random.key(11), **case.options)
    return case, belief


def constant(belief, name):
    return belief["constant_data"][name].values


def test_candidates_come_in_the_order_of_the_expected_ones(fitted):
    case, belief = fitted
    assert list(case.expected["policies"]) == list(case.policies)
    assert belief["posterior"].policy.values.tolist() == list(case.policies)
    assert case.logs.n_transitions == case.expected["n_transitions"]
    assert case.logs.n_episodes == case.expected["n_episodes"]


def test_means_are_the_plug_in_values(fitted):
    case, belief = fitted
    off = (constant(belief, "guide_mean") - case.column("plug_in_value")) / case.column(
        "influence_sd"
    )
    assert np.abs(off).max() < 0.03


def test_sds_are_those_of_the_influence_functions(fitted):
    case, belief = fitted
    ratio = constant(belief, "guide_sd") / case.column("influence_sd")
    assert np.abs(ratio - 1.0).max() < 0.01


def test_correlations_are_those_of_the_influence_functions(fitted):
    case, belief = fitted
    off = constant(belief, "correlation") - np.array(case.expected["correlation"])
    assert np.abs(off).max() < 0.01


def test_moved_mass_is_that_of_the_model(fitted):
    case, belief = fitted
    assert np.abs(constant(belief, "moved_mass") - case.column("moved_mass")).max() < 1e-4


def test_mean_ratios_are_those_of_the_model(fitted):
    case, belief = fitted
    counts = constant(belief, "pair_count")
    mean = case.mean[:, :-1] @ counts / counts.sum()
    np.testing.assert_allclose(mean, case.column("mean_ratio"), atol=0.01)


def test_draws_have_the_analytic_mean_and_sd(fitted):
    _, belief = fitted
    value = belief["posterior/value"].values[0]
    n = len(value)
    sd = constant(belief, "guide_sd")
    off = value.mean(axis=0) - constant(belief, "guide_mean")
    assert (np.abs(off) < 5 * sd / np.sqrt(n)).all()
    assert (np.abs(value.std(axis=0) / sd - 1.0) < 5 / np.sqrt(2 * n)).all()


def test_draws_have_the_analytic_correlations(fitted):
    _, belief = fitted
    value = belief["posterior/value"].values[0]
    correlation = constant(belief, "correlation")
    error = (1.0 - correlation**2) / np.sqrt(len(value))
    off = np.abs(np.corrcoef(value.T) - correlation)
    # Sample marginals are not exactly normal, which costs a little where the error is none.
    assert (off < 5 * error + 1e-3).all()


@pytest.mark.parametrize("name", ["bandit", *map(slow, CASES[1:-1]), CASES[-1]])
def test_the_way_for_many_pairs_gives_the_same(plain, name, worked_case, monkeypatch):
    case = worked_case(name)
    monkeypatch.setattr("bayesdice_ppl.models.gaussian.WIDE", 0)
    # Compiled functions remember the other way.
    jax.clear_caches()
    prepared = plain.prepare(case.logs, case.policies, **case.options)
    mean, factor = (np.asarray(x) for x in plain.solve(prepared, jax.random.key(0)).posterior)
    jax.clear_caches()
    sd = np.sqrt((factor**2).sum(axis=-1))
    live = case.sd > 0
    assert np.abs((mean - case.mean)[live] / case.sd[live]).max() < 1e-4
    # What holds exactly keeps a sd of nothing but rounding, which no ratio compares.
    free = case.sd > 1e-6
    assert np.abs(sd[free] / case.sd[free] - 1.0).max() < 1e-4
