"""Skewness: the posterior of a count, moments one pair at a time, a map that keeps order."""

import jax
import numpy as np
import pytest
from scipy.stats import beta, gamma, norm, t

from bayesdice_ppl import Policies, TabularPolicy
from bayesdice_ppl.fitting.statistics import count_statistics
from bayesdice_ppl.inference.dependence import Dependence
from bayesdice_ppl.inference.groups import Grouping
from bayesdice_ppl.inference.skewness import (
    UNSKEWED_VISITS,
    measure_tails,
    of_entries,
    skewness_of,
    standard_quantile,
)
from bayesdice_ppl.statistics import mean, quantile

SCORES = np.linspace(-4.0, 4.0, 33)
SHARES = norm.cdf(SCORES)


def bent(score, lean, df=np.inf):
    return standard_quantile(np.asarray(score)[:, None], np.array([df]), np.array([lean]))[:, 0]


@pytest.mark.parametrize("count", [1, 4, 25, 10_000])
def test_events_in_a_poisson_process_have_jeffreys_posterior(count):
    found = count + np.sqrt(count) * bent(SCORES, 1.0 / np.sqrt(count))
    np.testing.assert_allclose(found, gamma(count + 0.5).ppf(SHARES), rtol=1e-9, atol=1e-9)


def test_a_small_skewness_is_halls_expansion():
    for lean in (3e-3, -3e-3, 5e-5):
        expansion = SCORES + lean * (2.0 * SCORES**2 + 1.0) / 6.0
        # What is left is of the order of the square.
        assert np.abs(bent(SCORES, lean) - expansion).max() < 30.0 * lean**2


def test_a_left_tail_is_a_right_tail_seen_from_the_other_side():
    np.testing.assert_allclose(bent(SCORES, -0.4), -bent(-SCORES, 0.4), rtol=1e-12)


def test_without_skewness_values_are_students():
    np.testing.assert_allclose(bent(SCORES, 0.0, df=5.0), t(5.0).ppf(SHARES), rtol=1e-9)


@pytest.mark.parametrize("lean", [1e-6, 9.9e-5, 0.1, 0.9, -0.5])
@pytest.mark.parametrize("df", [1.0, 4.0, np.inf])
def test_a_higher_score_is_a_higher_value(lean, df):
    found = bent(np.linspace(-6.0, 6.0, 2001), lean, df)
    assert np.isfinite(found).all()
    assert (np.diff(found) > 0.0).all()


def rare(n, wins, arms=1):
    """Pulls of arms in no order; ``wins[a]`` of the n pulls of arm a pay 1."""
    pulls = [(a, float(i < wins[a])) for a in range(arms) for i in range(n)]
    return [pulls[i] for i in np.random.default_rng(0).permutation(len(pulls))]


def test_one_arm_with_rare_wins_has_nearly_the_posterior_of_its_rate(plain):
    n, wins = 5000, 25
    policies = Policies({"it": TabularPolicy([[1.0]])})
    found = plain.prepare(
        plain.bandit(rare(n, [wins])), policies, gamma=0.0, inference="exact", draws=20_000
    )
    solution = plain.solve(found, jax.random.key(0))
    value = plain.draw(found, solution, jax.random.key(1)).value[:, 0]
    exact = beta(wins + 0.5, n - wins + 0.5)
    for p in (0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975):
        share = exact.cdf(np.quantile(value, p))
        # Four standard errors, and half a percent for the sds, which the rule makes of n - 1.
        assert abs(share - p) < 4.0 * np.sqrt(p * (1.0 - p) / 20_000) + 0.005


def by_hand(deltas, pairs, weight):
    """Third cumulant, hidden variance and effective number, one pair and one row at a time."""
    groups = {}
    for delta, pair in zip(deltas, pairs, strict=True):
        groups.setdefault(int(pair), []).append(delta)
    off = {k: [d - sum(g) / len(g) for d in g] for k, g in groups.items()}
    repeats = sum(len(g) - 1 for g in groups.values())
    power = {p: {k: sum(d**p for d in g) for k, g in off.items()} for p in (2, 3, 4)}
    squares = sum(power[2][k] ** 2 / len(g) for k, g in off.items())
    noise = sum(power[4][k] - power[2][k] ** 2 / len(g) for k, g in off.items())
    nu = max(2.0, noise / squares)
    pool, pool_3 = (sum(power[p].values()) / repeats for p in (2, 3))
    third = new = old = seen = 0.0
    for k, g in off.items():
        n = len(g)
        d = weight[k] * n
        third += d**3 * (power[3][k] + nu * pool_3) / (n**2 * (n - 1 + nu))
        new += d**2 * (power[2][k] + nu * pool) / (n * (n - 1 + nu))
        old += d**2 * (power[2][k] + 2 * pool) / (n * (n + 1))
        seen += d**2 * power[2][k] / n**2
    u = [weight[k] * d for k, g in off.items() for d in g]
    effective = sum(x**2 for x in u) ** 2 / sum(x**4 for x in u)
    return third, max(new - max(old, seen), 0.0), effective


def test_moments_are_those_of_the_rows_one_by_one(plain):
    arms, wins = 3, [9, 2, 0]
    log = rare(60, wins, arms)
    policies = Policies(
        {"a": TabularPolicy([[0.2, 0.3, 0.5]]), "b": TabularPolicy([[0.9, 0, 0.1]])}
    )
    found = plain.prepare(plain.bandit(log), policies, gamma=0.0, inference="exact", draws=2)
    rows, problem = found.inputs.cell_rows, found.problem
    pair = np.asarray(problem.cells.pair)[rows.cell]
    for j, one in enumerate(measure_tails(problem.cells, problem.pilots, rows)):
        weight = np.asarray(problem.pilots.by_pair)[j] / len(log)
        deltas = np.asarray(problem.pilots.error)[j][rows.cell] + rows.reward
        np.testing.assert_allclose(one, by_hand(deltas, pair, weight), rtol=1e-9)
    # The arm without a win, which the first takes most, has the spread of the others.
    assert problem.tails.hidden[0] > 0.0
    df = np.asarray(problem.pilots.degrees_of_freedom)
    third = of_entries(measure_tails(problem.cells, problem.pilots, rows), "third")
    slope, sigma = np.asarray(problem.pilots.slope), np.asarray(problem.pilots.covariance)
    variance = np.array([s @ c @ s for s, c in zip(slope, sigma, strict=True)]) / len(log)
    np.testing.assert_allclose(problem.tails.skewness, skewness_of(third, variance, df))
    solution = plain.solve(found, jax.random.key(0))
    np.testing.assert_allclose(np.sqrt(variance), solution.value_sd, rtol=0.01)


def test_transitions_and_starts_have_moments_too(plain):
    log = plain.log(3, n_episodes=30)
    found = plain.prepare(log, plain.policies(1, 1), gamma=0.8, inference="exact", draws=2)
    rows, problem, pilots = found.inputs.cell_rows, found.problem, found.problem.pilots
    cells = problem.cells
    weight = np.asarray(pilots.by_pair)[0] / len(rows.cell)
    deltas = np.asarray(pilots.error)[0][rows.cell] + rows.reward
    pair = np.asarray(cells.pair)[rows.cell]
    third, hidden, _ = by_hand(deltas, pair, weight)
    values = np.asarray(pilots.start_value)[0][np.asarray(cells.initial_weight) > 0.0]
    share = np.asarray(cells.initial_weight)[np.asarray(cells.initial_weight) > 0.0]
    c0, m = float(pilots.start_weight[0]), log.n_episodes
    third += c0**3 * share @ (values - share @ values) ** 3 / m**2
    (one,) = measure_tails(cells, pilots, rows)
    assert one.third == pytest.approx(third, rel=1e-7)
    assert one.hidden == pytest.approx(hidden, rel=1e-7, abs=1e-15)


def test_groups_of_rows_are_cubed_as_groups(plain):
    log = rare(30, [4, 1], 2)
    policies = Policies({"a": TabularPolicy([[0.5, 0.5]])})
    found = plain.prepare(plain.bandit(log), policies, gamma=0.0, inference="exact", draws=2)
    rows, problem = found.inputs.cell_rows, found.problem
    code, n = np.arange(60) // 5, 60
    grouping = Grouping("user_id", code, code)
    known = problem.dependence
    groups = Dependence(rows.cell, rows.reward, np.arange(n), known.start, (grouping,), asked=True)

    class Unit:
        groupings = (grouping,)

    (one,) = measure_tails(problem.cells, problem.pilots, rows, groups=(groups, Unit()))
    pair = np.asarray(problem.cells.pair)[rows.cell]
    weight = np.asarray(problem.pilots.by_pair)[0][pair] / n
    off = weight * (rows.reward - np.array([4, 1])[pair] / 30)
    sums = off.reshape(-1, 5).sum(axis=1)
    # The prior moves the mean reward of an arm a little.
    assert one.third == pytest.approx((sums**3).sum(), rel=1e-2)
    assert one.effective == pytest.approx((off**2).sum() ** 2 / (off**4).sum(), rel=1e-2)


def test_skewness_of_few_visits_is_drawn_to_none():
    found = skewness_of(
        np.array([8.0, 8.0, 1.0]), np.array([4.0, 4.0, 0.0]), np.array([30, 1e12, 5])
    )
    assert found == pytest.approx([30.0 / (30.0 + UNSKEWED_VISITS), 1.0, 0.0])


def test_a_quantile_keeps_students_t_and_the_mean_its_skewness(plain):
    policies = Policies({"a": TabularPolicy([[0.5, 0.5]])})
    log = plain.bandit(rare(100, [4, 9], 2))
    options = {"gamma": 0.0, "inference": "exact", "draws": 2}
    alone = plain.prepare(log, policies, **options).problem.tails.skewness
    both = plain.prepare(log, policies, **options, statistic=(mean(), quantile(0.95)))
    found = count_statistics(both).problem.tails.skewness
    np.testing.assert_allclose(found[0], alone[0], rtol=1e-12)
    assert found[1] == 0.0
