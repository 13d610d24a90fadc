"""Gradient reversal, and a score that does not move with its own parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from bayesdice_ppl.models import StopScore, reverse_gradient


def base(loc, scale):
    return dist.MultivariateNormal(loc, scale_tril=scale)


LOC = np.array([0.5, -1.0])
SCALE = np.array([[1.5, 0.0], [0.4, 0.7]])


def test_reversal_keeps_the_value_and_turns_the_gradient():
    def climb(x):
        return jnp.sum(reverse_gradient(x) ** 3)

    x = jnp.array([1.0, -2.0, 0.5])
    np.testing.assert_array_equal(reverse_gradient(x), x)
    np.testing.assert_allclose(jax.grad(climb)(x), -3.0 * x**2)


def test_reversed_descent_climbs_to_the_maximum_of_a_concave_game():
    """min over x, max over b of x^2 + b (x - 1) - b^2 / 2 has its saddle at x = 1/3, b = -2/3."""

    @jax.jit
    @jax.grad
    def slope(point):
        x, b = point[0], reverse_gradient(point[1])
        return x**2 + b * (x - 1.0) - 0.5 * b**2

    point = jnp.array([3.0, 3.0])
    for _ in range(400):
        point = point - 0.1 * slope(point)
    np.testing.assert_allclose(point, [1 / 3, -2 / 3], atol=1e-5)


def test_stop_score_has_the_density_and_the_draws_of_its_base():
    x = np.array([[0.1, 0.2], [3.0, -1.0]])
    plain = base(LOC, SCALE)
    stopped = StopScore(plain)
    np.testing.assert_array_equal(stopped.log_prob(x), plain.log_prob(x))
    key = jax.random.key(3)
    np.testing.assert_array_equal(stopped.sample(key, (7,)), plain.sample(key, (7,)))
    assert (stopped.batch_shape, stopped.event_shape) == (plain.batch_shape, plain.event_shape)


@pytest.mark.parametrize("argument", [0, 1], ids=["loc", "scale"])
def test_stop_score_has_no_gradient_to_its_parameters_at_a_fixed_point(argument):
    x = np.array([0.1, 0.2])
    arguments = (jnp.asarray(LOC), jnp.asarray(SCALE))
    free = jax.grad(lambda *a: base(*a).log_prob(x), argument)(*arguments)
    stopped = jax.grad(lambda *a: StopScore(base(*a)).log_prob(x), argument)(*arguments)
    assert np.abs(free).max() > 0.1
    np.testing.assert_array_equal(stopped, jnp.zeros_like(stopped))


def test_stop_score_keeps_the_gradient_along_the_path():
    x = np.array([0.1, 0.2])
    along = jax.grad(lambda x: StopScore(base(LOC, SCALE)).log_prob(x))(x)
    np.testing.assert_allclose(along, -np.linalg.solve(SCALE @ SCALE.T, x - LOC), rtol=1e-5)
    draw = jax.jacobian(lambda loc: StopScore(base(loc, SCALE)).sample(jax.random.key(0)))(LOC)
    np.testing.assert_allclose(draw, np.eye(2), rtol=1e-6)
