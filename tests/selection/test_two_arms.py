"""Two arms by hand: regret@2 asks for the two extremes, which no number of one candidate can tell.

A candidate that pulls the first arm with probability p is worth p a + (1 - p) b, where a and b are
the arms' rates: in every joint draw the values lie on a line, and the best is at one of its ends.
Of a pair p_low < p_high the regret is therefore

    (p_max - p_high) (a - b)_+ + (p_low - p_min) (b - a)_+

and E (a - b)_+ = int F_b (1 - F_a) dx, as (a - b)_+ is the length of the x with b < x < a. If the
draws of each candidate are independent of the others', E max of a set is int 1 - prod F_j dx.
"""

from itertools import combinations

import arviz as az
import jax
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import fixed_quad, quad

import bayesdice_ppl as bd

PAPER = (0.75, 0.8, 0.85, 0.9, 0.95)
EVEN = (0.1, 0.3, 0.5, 0.7, 0.9)
PAIRS = np.array(list(combinations(range(5), 2)))
EXTREMES, TOP_TWO = (0, 4), (3, 4)
N_DRAWS = 20_000


def draw_arms(first, second, seed=0):
    """Joint draws of both arms' rates, from their Beta posteriors."""
    rng = np.random.default_rng(seed)
    return rng.beta(*first, size=N_DRAWS), rng.beta(*second, size=N_DRAWS)


def on_a_line(shares, a, b):
    """Values of candidates that pull the first arm with these probabilities.

    Written so that rounding keeps their order: sums and products are rounded monotonically.
    """
    return b[:, None] + np.array(shares) * (a - b)[:, None]


def belief_of(shares, values):
    return az.from_dict(
        {"posterior": {"value": values[None]}},
        coords={"policy": [str(p) for p in shares]},
        dims={"value": ["policy"]},
    )


def losses_of_pairs(values):
    """Mean regret of every pair, and its standard error."""
    losses = bd.scores.regret(2).losses(values, PAIRS)
    return losses.mean(axis=1), losses.std(axis=1, ddof=1) / np.sqrt(len(values))


def names_of(shares, pair):
    return {str(shares[i]) for i in pair}


@pytest.mark.parametrize("shares", [PAPER, EVEN])
def test_the_extremes_lose_nothing_whichever_arm_is_better(shares):
    a, b = draw_arms((7, 5), (6, 6))
    assert 0.2 < np.mean(b > a) < 0.4  # either arm may be the better one
    belief = belief_of(shares, on_a_line(shares, a, b))
    choice = bd.select(belief, bd.scores.regret(2))
    assert set(choice.order[:2]) == names_of(shares, EXTREMES)
    assert choice.expected_loss == 0.0
    assert choice.loss_standard_error == 0.0
    losses, _ = losses_of_pairs(on_a_line(shares, a, b))
    assert (np.delete(losses, PAIRS.tolist().index(list(EXTREMES))) > 0.0).all()
    # The mean, by which regret@1 sorts, lists the candidates from one end to the other.
    by_mean = bd.select(belief, bd.scores.regret(1)).order
    assert by_mean == [str(p) for p in reversed(shares)]


def expected_excess(higher, lower):
    """E (x - y)_+ of two independent Beta variables, by numerical integration."""
    x, y = stats.beta(*higher), stats.beta(*lower)
    return quad(lambda u: y.cdf(u) * x.sf(u), 0.0, 1.0, epsabs=1e-12)[0]


@pytest.mark.parametrize("shares", [PAPER, EVEN])
@pytest.mark.parametrize(
    ("first", "second", "first_ahead", "second_ahead"),
    [
        # One win and no loss against no pull: int x (1 - x^2) dx and int x^2 (1 - x) dx.
        ((2, 1), (1, 1), 1 / 4, 1 / 12),
        # Six wins in ten against five in ten.
        ((7, 5), (6, 6), expected_excess((7, 5), (6, 6)), expected_excess((6, 6), (7, 5))),
    ],
)
def test_every_other_pair_loses_what_the_line_says(
    shares, first, second, first_ahead, second_ahead
):
    # What one arm is ahead on average is the difference of the means.
    assert first_ahead - second_ahead == pytest.approx(
        stats.beta(*first).mean() - stats.beta(*second).mean(), abs=1e-12
    )
    losses, errors = losses_of_pairs(on_a_line(shares, *draw_arms(first, second, seed=1)))
    expected = [
        (shares[-1] - shares[high]) * first_ahead + (shares[low] - shares[0]) * second_ahead
        for low, high in PAIRS
    ]
    assert (np.abs(losses - expected) <= 5 * errors).all()
    # The two best by mean: where the second arm is better, the lower of them is not the other end.
    top_two = PAIRS.tolist().index(list(TOP_TWO))
    assert expected[top_two] == pytest.approx((shares[3] - shares[0]) * second_ahead, abs=1e-15)
    assert losses[top_two] > 5 * errors[top_two]


def independent_losses(cdfs):
    """Expected regret of every pair where each candidate's value is drawn on its own.

    Parameters
    ----------
    cdfs
        From points (V,) to the distribution functions there, (5, V); all mass is between -1 and 2.
    """

    def expected_maximum(candidates):
        above = fixed_quad(lambda v: 1.0 - cdfs(v)[candidates].prod(axis=0), 0.0, 2.0, n=400)[0]
        below = fixed_quad(lambda v: cdfs(v)[candidates].prod(axis=0), -1.0, 0.0, n=400)[0]
        return above - below

    everyone = expected_maximum(list(range(5)))
    return np.array([everyone - expected_maximum(pair) for pair in PAIRS.tolist()])


def convolved_cdfs(shares, first, second):
    """Distribution functions of p a + (1 - p) b, by integrating over b."""
    a, b = stats.beta(*first), stats.beta(*second)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    nodes, weights = (nodes + 1) / 2, weights / 2

    def cdfs(v):
        return np.array(
            [a.cdf((v[:, None] - (1 - p) * nodes) / p) @ (weights * b.pdf(nodes)) for p in shares]
        )

    return cdfs


@pytest.mark.parametrize("shares", [PAPER, EVEN])
def test_an_independent_belief_cannot_tell(shares):
    first, second = (7, 5), (6, 6)
    values = np.column_stack(
        [on_a_line([p], *draw_arms(first, second, seed=2 + j)) for j, p in enumerate(shares)]
    )
    expected = independent_losses(convolved_cdfs(shares, first, second))
    losses, errors = losses_of_pairs(values)
    assert (np.abs(losses - expected) <= 5 * errors).all()
    # To this belief no pair is safe, and the two neighbors at the top look best.
    assert (expected > 0.0).all()
    assert tuple(PAIRS[expected.argmin()]) == TOP_TWO
    choice = bd.select(belief_of(shares, values), bd.scores.regret(2))
    assert set(choice.order[:2]) == names_of(shares, TOP_TWO)
    assert abs(choice.expected_loss - expected.min()) <= 5 * choice.loss_standard_error


def test_from_logs_to_the_extremes():
    env = bd.envs.Bandit((0.55, 0.45))
    logs = bd.simulate(env, [[0.5, 0.5]], 1, 40, rng_key=jax.random.key(0))
    policies = {str(p): bd.TabularPolicy(np.array([[p, 1 - p]])) for p in PAPER}
    joint, product = (
        bd.fit(
            logs, policies, gamma=0.0, rng_key=jax.random.key(1), inference="exact", joint=together
        )
        for together in (True, False)
    )
    choice = bd.select(joint, bd.scores.regret(2))
    assert set(choice.order[:2]) == names_of(PAPER, EXTREMES)
    # A joint belief reorders each candidate's own draws, so that a row is on a line only as far as
    # they can tell: up to the standard error of a mean.
    draws = joint["posterior/value"].values.reshape(-1, 5)
    assert choice.expected_loss < draws.std(axis=0).min() / np.sqrt(len(draws))

    constants = product["constant_data"]
    marginals = stats.t(
        constants["degrees_of_freedom"].values[:, None],
        loc=constants["guide_mean"].values[:, None],
        scale=constants["guide_sd"].values[:, None],
    )
    expected = independent_losses(marginals.cdf)
    losses, errors = losses_of_pairs(product["posterior/value"].values.reshape(-1, 5))
    assert (expected > 0.0).all()
    assert (np.abs(losses - expected) <= 5 * errors).all()
    unsure = bd.select(product, bd.scores.regret(2))
    assert set(unsure.order[:2]) == names_of(PAPER, TOP_TWO)
    assert unsure.expected_loss > 5 * unsure.loss_standard_error
