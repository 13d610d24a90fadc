"""The optimistic program against closed forms: its parts, and (slowly) its optimum by SVI."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from numpyro.handlers import seed, substitute, trace

import bayesdice_ppl as bd
from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.constraint.penalties import Squared
from bayesdice_ppl.envs import Garnet
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.exploration.variational import fit_program, variational
from bayesdice_ppl.models import (
    RatioModel,
    counts_of,
    optimistic,
    pair_beliefs,
    pair_prior,
    policy_belief,
    quantile,
    variance,
)
from bayesdice_ppl.moments import Prior, count_cells, logged_pairs
from tests.exploration_worlds import drawn_counts

PRIOR, GAMMA, SIZE = pair_prior(0.0, 1.0), 0.9, (4, 2)
UNIFORM = np.full(SIZE, 0.5)


def model(optimism=variance(1.0), **options):  # noqa: B008  an immutable NamedTuple
    return optimistic(*SIZE, gamma=GAMMA, rewards=PRIOR, optimism=optimism, **options)


@pytest.fixture(scope="module")
def log():
    """A log that lacks a pair that a policy may take."""
    policy = UNIFORM.copy()
    policy[2] = (1.0, 0.0)
    return drawn_counts(Garnet(*SIZE, 2, seed=3), policy, 10, 30, 4)


@pytest.fixture(scope="module")
def ratio(log):
    with jax.enable_x64(True):
        return jax.tree.map(jnp.asarray, model().of_counts(log[0]))


@pytest.fixture
def policy():
    return np.random.default_rng(0).dirichlet(np.ones(2), size=4)


def constraint_of(ratio):
    price = ratio.beliefs.size
    return ChanceConstraint(Squared(jnp.ones(SIZE[0] + 1)), price, jnp.asarray(0.01))


def test_it_is_a_model_by_its_shape(log):
    assert isinstance(model(), RatioModel)
    assert hash(model()) == hash(model())
    assert str(model(quantile())) == "optimistic(quantile)"


def test_the_flow_of_a_policy_has_its_closed_form(log, policy):
    """The factor of flow and value gives the variance that the sum over pairs gives."""
    flow = model().of_counts(log[0]).flow(policy)
    found = policy_belief(pair_beliefs(log[0], PRIOR), policy, GAMMA)
    np.testing.assert_allclose(flow.center[:-1], found.occupancy.sum(axis=1), rtol=1e-9)
    assert float(flow.center[-1]) == pytest.approx(found.mean)
    # The ridge that makes Sigma invertible.
    assert float(flow.sd) == pytest.approx(found.variance**0.5, rel=1e-4)


def test_a_draw_is_priced_by_its_noise(ratio, policy):
    """N ell is half a sum of squares in the guide's coordinates, by multipliers of slope one."""

    @jax.jit
    def losses(key):
        constraint = constraint_of(ratio)
        eye = jnp.eye(SIZE[0] + 1)
        guide = trace(substitute(seed(ratio.guide, key), {"beta_slope": eye})).get_trace(constraint)
        drawn = {name: guide[name]["value"] for name in ("policy", "flow", "value", "beta")}
        found = []
        for inner in ("guide", "exact"):
            program = substitute(seed(ratio.model, key), drawn)
            sites = trace(program).get_trace(constraint, inner=inner)
            factor = sites["chance_constraint"]["fn"].log_factor
            found.append((sites["loss"]["value"] * constraint.price, -factor))
        return found, guide["coordinates"]["value"]

    with jax.enable_x64(True):
        found, u = losses(jax.random.key(1))
    u = np.asarray(u)
    np.testing.assert_allclose(np.ravel(found), 0.5 * u @ u, rtol=1e-6)


def test_its_methods_are_those_of_a_ratio(log, ratio):
    uniform = policy_belief(pair_beliefs(log[0], PRIOR), UNIFORM, GAMMA)

    @jax.jit
    def methods():
        latent = ratio.latent_prior().sample(jax.random.key(0), (3,))
        first = ratio.estimate(jnp.eye(5))
        share = ratio.beliefs.total.ravel() / ratio.beliefs.size
        coordinates = ratio.coordinates(jnp.eye(5), jnp.ones(5), value_constraint=True)
        drawn = ratio.by_pair(latent), ratio.recorded(latent)
        return first, share, coordinates, drawn, ratio.residual(first.latent[:-1])

    with jax.enable_x64(True):
        first, share, coordinates, drawn, residual = methods()
    assert [one.shape for one in drawn] == [(3, 8), (3, 8)]
    assert coordinates.factor.shape == (4 * 2 + 4 + 1,) * 2
    np.testing.assert_allclose(first.by_pair * share, uniform.occupancy.ravel(), atol=1e-9)
    np.testing.assert_allclose(residual[:-1], 0.0, atol=1e-9)
    assert float(residual[-1]) == pytest.approx(float(first.value))
    assert float(first.value) == pytest.approx(uniform.mean)
    # The multipliers are the state values, up to a constant, in units of the value's row.
    off = np.asarray(first.slope[:-1]) - uniform.state_value
    np.testing.assert_allclose(off, off[0], atol=1e-4)


def rows_as_logs(rows):
    names = ("episode_id", "step", "state", "action", "reward", "next_state")
    return bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"), actions=[0, 1])


def test_cells_of_a_log_give_the_same_counts(log):
    counts, rows = log
    logs = rows_as_logs(rows)
    mask = np.ones(logs.n_transitions, dtype=bool)
    cells, _ = count_cells(logs, logged_pairs(logs, np.arange(2), mask), mask, GAMMA)
    for found, expected in zip(counts_of(cells, *SIZE), counts, strict=True):
        np.testing.assert_allclose(found, expected)


def test_a_candidate_is_refused(log):
    with pytest.raises(SettingsError, match=r"optimistic.*those of a candidate"):
        bd.fit(
            rows_as_logs(log[1]),
            {"uniform": bd.TabularPolicy(UNIFORM)},
            gamma=GAMMA,
            rng_key=jax.random.key(0),
            model=model(),
        )


@pytest.mark.parametrize(
    ("optimism", "n"),
    [(variance(2.0), 100.0), (quantile(0.9), 100.0)],
    ids=["variance", "quantile"],
)
def test_a_score_is_a_minimum_over_center_and_spread(optimism, n):
    draws = np.random.default_rng(0).normal(0.3, 0.2, 1000)
    at_best = optimism.of_draw(draws, draws.mean(), draws.std(), n).mean()
    assert at_best == pytest.approx(optimism.score(draws.mean(), draws.var(), n))
    for center, spread in ((0.2, 0.2), (0.3, 0.1), (0.3, 0.4)):
        assert optimism.of_draw(draws, center, spread, n).mean() >= at_best


def test_the_slope_of_a_score_is_its_derivative():
    for optimism in (variance(2.0), quantile(0.9), quantile()):
        at, step = 0.04, 1e-6
        rise = optimism.score(0.0, at + step, 50.0) - optimism.score(0.0, at - step, 50.0)
        assert optimism.slope(at, 50.0) == pytest.approx(rise / (2 * step), rel=1e-5)


def test_a_quantile_grows_with_the_log_on_either_library():
    found = [float(quantile().multiple(n)) for n in (np.float64(0.0), np.float64(99.0))]
    assert found == pytest.approx([0.0, 2.3263], abs=1e-4)
    with jax.enable_x64(True):
        assert float(quantile().multiple(jnp.asarray(99.0))) == pytest.approx(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["guide", "exact"])
@pytest.mark.parametrize(
    ("optimism", "lambda_2"),
    [(variance(0.0), 1.0), (variance(40.0), 1.0), (quantile(0.99), 0.1)],
    ids=["mean", "variance", "quantile"],
)
def test_q_of_a_fixed_policy_has_its_closed_form(log, policy, optimism, lambda_2, inner):
    """Equation 4 of `docs/exploration.md`: q leans to the good side, and is as wide as it says."""
    asked = model(optimism, lambda_2=lambda_2, policy_price=1e4, policy_sd=1e-4)
    # The policy's prior is a point at the uniform one.
    with jax.enable_x64(True):
        ratio = asked.of_counts(log[0], Prior(ratio_sd=1e4, value_sd=1e4))
        settings = variational(PRIOR, steps=3000, learning_rate=0.05, lambda_2=lambda_2)
        start = np.zeros((1, *SIZE))
        found = fit_program(ratio, start, jax.random.key(1), settings, inner=inner).parameters
        flow = ratio.flow(jnp.asarray(UNIFORM))
        row = np.asarray(flow.factor[-1])
        mean = float(flow.center[-1] + row @ found["flow_loc"][0])
        sd = float(np.linalg.norm(row @ np.asarray(found["flow_tril"][0])))
    belief = policy_belief(pair_beliefs(log[0], PRIOR), UNIFORM, GAMMA)
    m, s = float(belief.mean), float(belief.variance) ** 0.5
    if isinstance(optimism, type(variance(0.0))):
        b = (1.0 / s**2 - 2.0 * optimism.lambda_u / lambda_2) ** -0.5
    else:
        k = float(optimism.multiple(1.0)) * s / lambda_2
        b = s * (k + np.sqrt(k**2 + 4.0)) / 2.0
    assert b > s or optimism == variance(0.0)
    assert mean == pytest.approx(m + s**2 / lambda_2, abs=0.05 * s)
    assert sd == pytest.approx(b, rel=0.05)
