"""SVI on the public program against the closed form: its guide's own moments, from far off."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesdice_ppl.fitting import fit_flat, flat_settings
from bayesdice_ppl.inference import Exact, Problem, prepare, solve
from bayesdice_ppl.moments import Candidates, count_cells, logged_pairs
from bayesdice_ppl.policies import align_policies
from bayesdice_ppl.simulation import make_world, simulate
from tests.marks import slow

MEAN_BAR, SD_BAR = 0.03, 0.03
N_STATES, N_ACTIONS, N_CELLS = 10, 3, 240
KEY = jax.random.key(2024)


def solved(problem, settings):
    return solve(problem, KEY, settings.form, settings.inference, settings.draws)


def gaussian(solution):
    mean, factor = (np.asarray(array) for array in solution.posterior)
    return mean, np.sqrt((factor**2).sum(axis=-1))


def far_start(problem, mean, sd, svi):
    """Settings whose start is at least three posterior sds off in every candidate's value."""
    center, factor = (np.asarray(array) for array in problem.coordinates)
    reach = np.abs(factor[:, -1]).sum(axis=-1) / sd[:, -1]
    far = svi._replace(start_offset=max(3.0, float(np.ceil(4.0 / reach.min()))), start_scale=3.0)
    direction = np.where(factor[:, -1] >= 0.0, 1.0, -1.0)
    start = center + far.start_offset * np.einsum("nkl,nl->nk", factor, direction)
    assert (np.abs(start - mean)[:, -1] >= 3.0 * sd[:, -1]).all()
    width = far.start_scale * np.linalg.norm(factor, axis=-1)
    assert (width[:, -1] >= 2.9 * sd[:, -1]).all()
    return far


def assert_close(found, expected):
    (mean, sd), (exact_mean, exact_sd) = found, expected
    assert np.abs((mean - exact_mean) / exact_sd).max() < MEAN_BAR
    assert np.abs(sd / exact_sd - 1.0).max() < SD_BAR


def both_ways(problem, settings, expected):
    """Fit with either inner maximization from the same far start."""
    far = replace(settings, inference=far_start(problem, *expected, settings.inference))
    forms = (replace(settings.constraint, inner=inner) for inner in ("guide", "exact"))
    return tuple(gaussian(solved(problem, replace(far, constraint=form))) for form in forms)


@pytest.fixture(scope="module", params=["bandit", slow("frozen_lake_10"), "frozen_lake_50"])
def worked(request, worked_case):
    case = worked_case(request.param)
    settings = flat_settings(**{**case.options, "inference": "svi"})
    expected = case.mean, case.sd
    return expected, both_ways(case.prepared.problem, settings, expected)


def padded(cells):
    """The same log in `N_CELLS` cells, so that logs of any kind compile once: empty ones follow."""
    fields = ("pair", "successor", "terminated", "count", "reward_sum", "reward_square_sum")
    extra = N_CELLS - len(cells.pair)
    return cells._replace(
        **{name: np.pad(getattr(cells, name), (0, extra)) for name in (*fields, "episode")}
    )


def garnet_problem(seed, settings):
    world = make_world(
        "garnet", world_seed=seed, n_states=N_STATES, n_actions=N_ACTIONS, candidates=(0.9,)
    )
    # Half uniform, so that every pair is logged and all worlds have one shape.
    behavior = 0.5 * world.behavior.probs(np.arange(N_STATES)) + 0.5 / N_ACTIONS
    logs = simulate(world.env, behavior, 100, 20, rng_key=jax.random.key(seed))
    mask = np.ones(logs.n_transitions, dtype=bool)
    pairs = logged_pairs(logs, np.arange(N_ACTIONS), mask)
    assert len(pairs.state) == N_STATES * N_ACTIONS
    cells, _ = count_cells(logs, pairs, mask, settings.gamma)
    table = align_policies(logs, world.candidates).probabilities
    target = table[:, pairs.state, pairs.action]
    candidates = Candidates(target, np.ones_like(target), np.ones((1, N_STATES)))
    return prepare(padded(cells), candidates, settings.form)


@pytest.fixture(scope="module")
def garnets():
    """Twenty worlds as one problem of twenty candidates, each with a log of its own."""
    settings = flat_settings(gamma=0.95, small_sample=False)
    problems = [garnet_problem(seed, settings) for seed in range(20)]
    with jax.enable_x64(True):
        parts = [(p.ratio, p.constraint, p.coordinates, p.pilots) for p in problems]
        stacked = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
    problem = Problem(problems[0].cells, *stacked, ())
    expected = gaussian(solved(problem, replace(settings, inference=Exact())))
    return expected, both_ways(problem, settings, expected)


def test_guide_finds_every_mean_and_sd_of_the_worked_cases(worked):
    expected, (guide, _) = worked
    assert_close(guide, expected)


def test_exact_multipliers_find_every_mean_and_sd_of_the_worked_cases(worked):
    expected, (_, exact) = worked
    assert_close(exact, expected)


def test_guide_equals_exact_multipliers_on_the_worked_cases(worked):
    _, (guide, exact) = worked
    assert_close(guide, exact)


@pytest.mark.slow
def test_guide_finds_every_mean_and_sd_of_twenty_garnets(garnets):
    expected, (guide, _) = garnets
    assert guide[0].shape == (20, N_STATES * N_ACTIONS + 1)
    assert_close(guide, expected)


@pytest.mark.slow
def test_exact_multipliers_find_every_mean_and_sd_of_twenty_garnets(garnets):
    expected, (_, exact) = garnets
    assert_close(exact, expected)


@pytest.mark.slow
def test_guide_equals_exact_multipliers_on_twenty_garnets(garnets):
    _, (guide, exact) = garnets
    assert_close(guide, exact)
    assert np.abs(guide[0] - exact[0]).max() > 0.0


@pytest.mark.slow
def test_dense_rewards_at_a_long_horizon_are_no_wider_than_the_closed_form(plain):
    """Where action values are a hundred times the rewards, a careless ridge would show."""
    logs = plain.log(4, rewards="continuous")
    policies = plain.policies(4, 2)
    prepared = plain.prepare(logs, policies, gamma=0.99, small_sample=False)
    expected = gaussian(plain.solve(prepared, KEY, inference="exact"))
    assert_close(gaussian(plain.solve(prepared, KEY)), expected)


def test_belief_holds_the_guides_own_moments_and_its_elbo(worked_case):
    case = worked_case("bandit")
    options = {**case.options, "inference": "svi"}
    belief = fit_flat(case.logs, case.policies, rng_key=KEY, **options)
    mean, sd = case.mean[:, -1], case.sd[:, -1]
    found = belief["constant_data"]
    assert np.abs((found.guide_mean.values - mean) / sd).max() < MEAN_BAR
    assert np.abs(found.guide_sd.values / sd - 1.0).max() < SD_BAR
    elbo = belief["fit_data/elbo"].values
    assert elbo.shape == (5, 5 * 500)
    assert (elbo[:, -100:].mean(axis=1) > elbo[:, :100].mean(axis=1)).all()


@pytest.mark.parametrize("preset", [None, slow("paper")])
@pytest.mark.parametrize("name", [slow("frozen_lake_50"), "garnet_average"])
def test_the_first_coordinates_are_not_the_answer(plain, worked_case, name, preset):
    """In the answer's own coordinates all variances would be one; in these they differ twofold."""
    case = worked_case(name)
    options = {**case.options, "small_sample": None, "preset": preset}
    found = plain.prepare(case.logs, case.policies, **options)
    posterior, coordinates = plain.solve(found, KEY).posterior, found.problem.coordinates
    for factor, there in zip(posterior.factor, coordinates.factor, strict=True):
        size = len(there)
        inside = np.linalg.solve(np.asarray(there), np.asarray(factor)[:size])
        variances = np.linalg.svd(inside, compute_uv=False) ** 2
        assert variances[0] / variances[-1] > 2.0


@pytest.mark.slow
def test_the_papers_own_form_by_svi_equals_its_closed_form(plain, worked_case):
    case = worked_case("frozen_lake_50")
    options = {**case.options, "small_sample": None, "preset": "paper"}
    prepared = plain.prepare(case.logs, case.policies, **options)
    exact = gaussian(plain.solve(prepared, KEY))
    found = gaussian(plain.solve(prepared, KEY, inference="svi"))
    values = tuple(array[:, -1:] for array in found), tuple(array[:, -1:] for array in exact)
    assert_close(*values)
