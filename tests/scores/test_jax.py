"""One definition, two libraries: the losses under JAX are those under NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesdice_ppl import scores
from tests.scores import literal


def compiled(score, values):
    """Losses by JAX; rankings are traced."""
    with jax.enable_x64(True):
        digest = jax.tree.map(jnp.asarray, score.digest(values))
        of_digest = jax.jit(lambda digest, rankings: score.of_digest(jnp, digest, rankings))

    def losses(rankings):
        with jax.enable_x64(True):
            return np.asarray(of_digest(digest, jnp.asarray(rankings)))

    return losses


@pytest.mark.parametrize("word", literal.WORDS)
@pytest.mark.parametrize(("n", "k"), [(2, 2), (6, 3), (6, 6)])
def test_losses_are_the_same(word, n, k):
    for ties in (False, True):
        values = literal.random_draws(n + k, n, 30, ties=ties)
        score = literal.make(word, k, n)
        rankings = literal.random_rankings(n, n, 11)[:, : score.depth(n)]
        found = compiled(score, values)(rankings)
        assert found.shape == (11, 30)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, score.losses(values, rankings), rtol=0, atol=1e-12)


@pytest.mark.parametrize("word", literal.PARTIAL)
def test_fewer_places(word):
    values = literal.random_draws(3, 6, 30)
    score, rankings = literal.make(word, 4, 6), literal.random_rankings(3, 6, 11)[:, :2]
    expected = score.losses(values, rankings, fewer=True)
    np.testing.assert_allclose(compiled(score, values)(rankings), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("word", literal.WORDS)
def test_many_places_are_a_loop_and_not_written_out(word):
    sizes = []
    for n in (40, 80):
        values = literal.random_draws(n, n, 12, ties=word != "correlation")
        k = n // 2
        score, rankings = literal.make(word, k, n), literal.random_rankings(n, n, 5)
        rankings = rankings[:, : score.depth(n)]
        found = compiled(score, values)(rankings)
        np.testing.assert_allclose(found, score.losses(values, rankings), rtol=0, atol=1e-12)
        with jax.enable_x64(True):
            digest = jax.tree.map(jnp.asarray, score.digest(values))
            traced = jax.make_jaxpr(lambda d, r, score=score: score.of_digest(jnp, d, r))(
                digest, rankings
            )
        sizes.append(len(str(traced).splitlines()))
    # The number of places is nowhere in what is compiled.
    assert sizes[0] == sizes[1]


def test_ties_across_place_k_are_added_up():
    values = np.zeros((3, 6))
    values[0] = [5, 4, 3, 2, 1, 0]
    values[1, 0] = 1.0
    score, rankings = scores.correlation(3), literal.random_rankings(0, 6, 9)
    weight, draw = score.digest(values)[2:4]
    assert np.bincount(draw).tolist() == [1, 10, 20]  # 1, C(5, 2), C(6, 3)
    np.testing.assert_allclose(np.bincount(draw, weight), 1)
    expected = score.losses(values, rankings)
    np.testing.assert_allclose(compiled(score, values)(rankings), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(expected[:, 2], 1, atol=1e-12)


def test_a_callable_is_traced_once_and_sees_the_whole_ranking():
    shapes = []

    def second(values, ranking):
        shapes.append((values.shape, ranking.shape))
        return values[:, ranking[-1]]  # the last of all, filled in by index

    values = literal.random_draws(2, 5, 8)
    losses = compiled(scores.custom(second, depth=2), values)
    found = losses(np.array([[4, 0], [1, 2], [3, 4]]))
    np.testing.assert_array_equal(found, values[:, [3, 4, 2]].T)
    assert shapes == [((8, 5), (5,))]
    losses(np.array([[0, 1], [2, 3], [4, 1]]))
    assert len(shapes) == 1
