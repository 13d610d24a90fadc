"""Beam and local search against brute force, planted optima and exact dynamic programming."""

import math
from itertools import combinations, islice, permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesdice_ppl.errors import ScoreError
from bayesdice_ppl.selection.rules import Rules, no_rules
from bayesdice_ppl.selection.solvers.local_search import improve
from bayesdice_ppl.selection.solvers.neighbors import Moves, extended, kicked, moved, neighborhood
from bayesdice_ppl.selection.solvers.objective import in_batches
from tests.marks import every_fifth

# Sizes of the 200 random beliefs: 5,040 rankings each for the last.
SIZES = [2] * 25 + [3] * 50 + [4] * 60 + [5] * 50 + [6] * 12 + [7] * 3
BATCH = 64
# The worst tenth of so many draws is two of them.
DRAWS = 20


def correlated_draws(seed, n_policies, n_draws):
    """Draws whose columns are in order of their means; every third belief has tied values."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_draws, 1)) + rng.normal(size=(n_draws, n_policies))
    values += 0.5 * rng.normal(size=n_policies)
    if seed % 3 == 0:
        values = np.round(2 * values) / 2
    return values[:, np.argsort(-values.mean(axis=0), kind="stable")]


@jax.jit
def _tail_regrets(values, rankings):
    def tail_regret(ranking):
        regret = values.max(axis=1) - values[:, ranking].max(axis=1)
        return jnp.sort(regret)[-(len(values) // 10) :].mean()

    return jax.vmap(tail_regret)(rankings)


@jax.jit
def _disagreements(better, rankings):
    def disagreement(ranking):
        return jnp.triu(better[ranking][:, ranking], 1).sum()

    return jax.vmap(disagreement)(rankings)


@jax.jit
def _correlation_losses(truly_best, rankings):
    def loss(ranking):
        listed = jnp.argsort(ranking)[truly_best] * 1.0
        listed -= listed.mean(axis=1, keepdims=True)
        place = jnp.arange(truly_best.shape[1]) - (truly_best.shape[1] - 1) / 2
        norms = jnp.linalg.norm(listed, axis=1) * jnp.linalg.norm(place)
        return 1.0 - (listed @ place / norms).mean()

    return jax.vmap(loss)(rankings)


def in_float64(function, fixed, batch=BATCH):
    def objective(rankings):
        with jax.enable_x64(True):
            return np.asarray(function(jnp.asarray(fixed), jnp.asarray(rankings)))

    return in_batches(objective, batch)


def better_share(values):
    """Entry (i, j): how often j is truly better than i, a tie counting one half."""
    above = (values[:, None, :] > values[:, :, None]).mean(axis=0)
    tied = (values[:, None, :] == values[:, :, None]).mean(axis=0)
    return above + tied / 2


def first_rows(*orders, depth):
    return np.array([list(order)[:depth] for order in orders])


def search(objective, n_policies, depth, *, rules=None, starts=None, **options):
    settings = {"ordered": True, "launches": depth, "max_evaluations": 1_000_000, "batch": BATCH}
    return improve(
        objective,
        n_policies,
        depth,
        no_rules(n_policies) if rules is None else rules,
        first_rows(range(n_policies), depth=depth) if starts is None else starts,
        **(settings | options),
    )


def assert_agrees(found, by_prefix, where):
    """Hold what was found against the losses of all prefixes."""
    in_order = sorted(by_prefix.values())
    assert found.loss == pytest.approx(in_order[0], abs=1e-12), where
    assert by_prefix[found.prefix] == pytest.approx(in_order[0], abs=1e-12), where
    if len(in_order) == 1:
        assert found.runner_up is None, where
    else:
        assert found.runner_up != found.prefix, where
        assert found.runner_up_loss == pytest.approx(by_prefix[found.runner_up], abs=1e-12), where
        assert found.runner_up_loss >= in_order[1] - 1e-12, where
    assert found.evaluated <= len(by_prefix), where
    assert (found.bound, found.runner_up_proven) == (None, False)
    assert found.method == "local search"


# --- brute force ----------------------------------------------------------------------------


def tail_regret_by_hand(rows, chosen):
    regrets = sorted(max(row) - max(row[i] for i in chosen) for row in rows)
    worst = regrets[-(len(rows) // 10) :]
    return sum(worst) / len(worst)


@pytest.mark.slow
@every_fifth
def test_finds_the_lowest_tail_regret_of_many_beliefs(every):
    for seed, n in islice(enumerate(SIZES), 0, None, every):
        values = correlated_draws(seed, n, DRAWS)
        rows = values.tolist()
        objective = in_float64(_tail_regrets, values)
        for k in range(1, n + 1):
            found = search(objective, n, k, ordered=False)
            every = {s: tail_regret_by_hand(rows, s) for s in combinations(range(n), k)}
            assert_agrees(found, every, f"belief {seed}, {n} policies, depth {k}")


@every_fifth
def test_finds_the_order_of_fewest_disagreements_of_many_beliefs(every):
    for seed, n in islice(enumerate(SIZES), 0, None, every):
        better = better_share(correlated_draws(seed, n, DRAWS))
        found = search(in_float64(_disagreements, better), n, n)
        table = better.tolist()
        every = {
            order: sum(table[a][b] for a, b in combinations(order, 2))
            for order in permutations(range(n))
        }
        assert_agrees(found, every, f"belief {seed}, {n} policies")


def correlation_loss_by_hand(best, order):
    """One minus the mean correlation of 1..k with the listed places of the truly best k."""
    k = len(best[0])
    total = 0.0
    for truly in best:
        listed = [order.index(i) for i in truly]
        center = sum(listed) / k
        product = sum((j - (k - 1) / 2) * (p - center) for j, p in enumerate(listed))
        spread = sum((p - center) ** 2 for p in listed) * k * (k * k - 1) / 12
        total += product / math.sqrt(spread)
    return 1 - total / len(best)


@every_fifth
def test_finds_the_ranking_of_highest_correlation_of_many_beliefs(every):
    for seed, n in islice(enumerate(SIZES), 0, None, every):
        values = correlated_draws(3 * seed + 1, n, 6)  # seeds whose values are not tied
        ranked = np.argsort(-values, axis=1)
        for k in range(2, n + 1):
            found = search(in_float64(_correlation_losses, ranked[:, :k]), n, n, launches=k)
            best = ranked[:, :k].tolist()
            every = {o: correlation_loss_by_hand(best, o) for o in permutations(range(n))}
            assert_agrees(found, every, f"belief {seed}, {n} policies, k {k}")


def stepped(values, ranking):
    """What a user may write: thresholds, the worst of three draws, a liking for some pairs."""
    score = sum(math.floor(3 * values[:, i].max()) / (j + 1) for j, i in enumerate(ranking))
    missed = np.sort((values[:, list(ranking)] < 0.3).sum(axis=1))[-3:].sum()
    return missed - 0.2 * score + 0.3 * ((7 * ranking[0] + 5 * ranking[-1]) % 3)


@every_fifth
def test_finds_the_best_of_a_rough_function_of_many_beliefs(every):
    for seed, n in islice(enumerate(SIZES), 0, None, every):
        values = correlated_draws(seed, n, DRAWS)

        def objective(rankings, values=values):
            return [stepped(values, ranking) for ranking in rankings]

        for k in range(1, n + 1):
            found = search(objective, n, k)
            every = {p: stepped(values, p) for p in permutations(range(n), k)}
            assert_agrees(found, every, f"belief {seed}, {n} policies, depth {k}")


def test_an_order_of_fourteen_agrees_with_dynamic_programming():
    n = 14
    for seed in range(3):
        # Not a belief but a table without any structure, which is harder.
        table = np.random.default_rng(seed).random((n, n))
        lowest = {0: 0.0}
        for done in range(1, 1 << n):
            # The last of the first few: what it costs that it comes behind all others of them.
            members = [i for i in range(n) if done >> i & 1]
            lowest[done] = min(
                lowest[done ^ (1 << i)] + sum(table[j, i] for j in members if j != i)
                for i in members
            )
        found = search(in_float64(_disagreements, table, 256), n, n, batch=256)
        assert found.loss == pytest.approx(lowest[(1 << n) - 1], abs=1e-12)


# --- a planted optimum ----------------------------------------------------------------------


def test_finds_a_planted_set_of_eight_among_sixty():
    # Each of 8 groups of 7 owns an eighth of the draws, where its first policy is best; four
    # others are everywhere good, nowhere best, and on average the best by far. Only the eight
    # first have no regret: without one of them an eighth of the draws has some, and the worst
    # tenth of all draws too.
    groups, size, share = 8, 7, 50
    strength = np.tile(np.linspace(0.5, 1.5, share), groups)
    owner = np.repeat(np.arange(groups), share)
    values = np.full((groups * share, groups * size + 4), -3.0)
    for g in range(groups):
        for j in range(size):
            values[owner == g, g * size + j] = 1.0 - 0.05 * j
    values[:, -4:] = [0.6, 0.55, 0.5, 0.45]
    values *= strength[:, None]
    preference = np.random.default_rng(5).permutation(values.shape[1])
    preference = preference[np.argsort(-values[:, preference].mean(axis=0), kind="stable")]
    planted = {int(np.flatnonzero(preference == g * size)[0]) for g in range(groups)}
    objective = in_float64(_tail_regrets, values[:, preference], 256)
    found = search(objective, 60, 8, ordered=False, batch=256, kicks=16)
    assert set(found.prefix) == planted
    assert found.loss == 0.0
    assert found.runner_up_loss > 0.0
    assert not planted & set(range(4))


# --- the same answer again ------------------------------------------------------------------


def test_the_same_problem_has_the_same_answer():
    values = correlated_draws(1, 15, 40)
    objective = in_float64(_disagreements, better_share(values))
    np.random.seed(1)  # noqa: NPY002  what another's code may do
    once = search(objective, 15, 15, max_evaluations=3000)
    np.random.seed(2)  # noqa: NPY002
    assert search(objective, 15, 15, max_evaluations=3000) == once


@pytest.mark.slow
def test_other_labels_are_other_names_for_the_same_answer():
    for seed in (1, 2, 4, 5):
        values = correlated_draws(seed, 12, 40)
        order = np.random.default_rng(seed).permutation(12)
        place = np.argsort(order)
        one = search(in_float64(_tail_regrets, values), 12, 4, ordered=False)
        two = search(
            in_float64(_tail_regrets, values[:, order]),
            12,
            4,
            ordered=False,
            starts=place[:4][None],
        )
        assert {int(order[i]) for i in two.prefix} == set(one.prefix)
        assert two.loss == pytest.approx(one.loss, abs=1e-14)
        table = np.random.default_rng(seed).random((12, 12))
        one = search(in_float64(_disagreements, table), 12, 12)
        renamed = table[np.ix_(order, order)]
        two = search(in_float64(_disagreements, renamed), 12, 12, starts=place[None])
        assert tuple(order[list(two.prefix)].tolist()) == one.prefix
        assert two.loss == pytest.approx(one.loss, abs=1e-12)


def test_of_equal_rankings_the_preferred_wins():
    def nothing_matters(rankings):
        return np.ones(len(rankings))

    def rounding(rankings):
        return 1.0 + 1e-13 * np.sin(rankings @ np.arange(1, rankings.shape[1] + 1))

    for objective in (nothing_matters, rounding):
        backwards = first_rows(range(8, -1, -1), depth=9)
        found = search(objective, 9, 9, starts=backwards)
        assert found.prefix == tuple(range(9))
        assert found.runner_up == (0, 1, 2, 3, 4, 5, 6, 8, 7)
        found = search(objective, 9, 4, starts=backwards[:, :4], ordered=False)
        assert (found.prefix, found.runner_up) == ((0, 1, 2, 3), (0, 1, 2, 4))
    # The losses are small beside the numbers that they are differences of.
    found = search(lambda r: 1e-13 * r[:, 0], 9, 4, starts=backwards[:, :4], scale=1e3)
    assert found.prefix == (0, 1, 2, 3)
    found = search(lambda r: 1e-13 * r[:, -1], 9, 4, starts=backwards[:, :4])
    assert found.prefix == (1, 2, 3, 0)


# --- rules and budgets ----------------------------------------------------------------------


class Recorder:
    """An objective that remembers every row that it was handed."""

    def __init__(self, objective):
        self.objective, self.calls = objective, []

    def __call__(self, rankings):
        self.calls.append(rankings.copy())
        return self.objective(rankings)

    @property
    def rows(self):
        return {tuple(row) for call in self.calls for row in call.tolist()}


def random_rules(rng, n_policies):
    required, excluded = np.zeros(n_policies, bool), np.zeros(n_policies, bool)
    which = rng.permutation(n_policies)
    required[which[: rng.integers(0, 2)]] = True
    excluded[which[2 : 2 + rng.integers(0, 2)]] = True
    cost = rng.integers(1, 6, size=n_policies) / 10
    return Rules(required, excluded, cost, float(rng.integers(4, 14)) / 10)


def is_allowed(rules, launched):
    """By the definition, with costs counted in tenths."""
    tenths = sum(round(10 * float(rules.cost[i])) for i in launched)
    return (
        all(i in launched for i in np.flatnonzero(rules.required))
        and not any(rules.excluded[i] for i in launched)
        and tenths <= round(10 * rules.budget)
    )


@pytest.mark.parametrize("kind", ["set", "prefix", "whole ranking"])
def test_rules_are_kept_by_every_ranking_that_is_judged(kind):
    searched = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 7))
        k = int(rng.integers(2, n))
        rules, values = random_rules(rng, n), correlated_draws(seed, n, DRAWS)
        depth = n if kind == "whole ranking" else k
        every = (combinations if kind == "set" else permutations)(range(n), depth)
        allowed = [prefix for prefix in every if is_allowed(rules, prefix[:k])]
        if not allowed:
            continue
        searched += 1
        if kind == "set":
            recorder = Recorder(in_float64(_tail_regrets, values))
        else:
            recorder = Recorder(lambda rankings, v=values: [stepped(v, r) for r in rankings])
        starts = np.array([allowed[0], allowed[-1]])
        found = search(
            recorder, n, depth, rules=rules, starts=starts, launches=k, ordered=kind != "set"
        )
        assert recorder.rows <= set(allowed)
        every = dict(zip(allowed, recorder.objective(np.array(allowed)), strict=True))
        assert_agrees(found, every, f"belief {seed}")
    assert searched > 30


def test_the_budget_is_kept_to_the_row():
    values = correlated_draws(1, 12, 40)
    for most in (1, 2, 7, 60, 200, 10_000):
        recorder = Recorder(in_float64(_tail_regrets, values))
        found = search(recorder, 12, 4, ordered=False, max_evaluations=most)
        # There are 495 sets; the largest budget is not used up.
        assert found.evaluated == len(recorder.rows)
        assert found.evaluated == most or (most == 10_000 and found.evaluated <= 495)
        assert max(map(len, recorder.calls)) <= BATCH
        seen = sorted(recorder.rows)
        assert found.loss == min(recorder.objective(np.array(seen)))
        assert (found.runner_up is None) == (most == 1)


def test_no_ranking_is_judged_twice():
    values = correlated_draws(2, 12, 40)
    recorder = Recorder(in_float64(_tail_regrets, values))
    found = search(recorder, 12, 4, ordered=False)
    assert sum(map(len, recorder.calls)) == len(recorder.rows) == found.evaluated
    assert max(map(len, recorder.calls)) <= BATCH
    again = search(recorder, 12, 4, ordered=False)
    assert again == found


def test_a_single_policy_and_a_whole_set_leave_nothing_to_search():
    found = search(lambda rankings: 2.0 + rankings[:, 0], 1, 1)
    assert (found.prefix, found.loss, found.runner_up, found.evaluated) == ((0,), 2.0, None, 1)
    found = search(lambda rankings: np.ones(len(rankings)), 3, 3, ordered=False)
    assert (found.prefix, found.runner_up, found.evaluated) == ((0, 1, 2), None, 1)


# --- errors ---------------------------------------------------------------------------------


def test_what_cannot_be_searched_is_refused():
    def fine(rankings):
        return np.zeros(len(rankings))

    excluded = no_rules(4)._replace(excluded=np.array([True, False, False, False]))
    with pytest.raises(ScoreError, match="found 2, of which 1 break a rule"):
        search(fine, 4, 2, rules=excluded, starts=np.array([[1, 2], [0, 1]]))
    with pytest.raises(ScoreError, match="at least one, found 0"):
        search(fine, 4, 2, starts=np.empty((0, 2), int))
    with pytest.raises(ScoreError, match="expected 3, as a set is launched as a whole, found 2"):
        search(fine, 4, 3, ordered=False, launches=2)
    with pytest.raises(
        ScoreError, match=r"one number per ranking, shape \(4,\), found shape \(4, 1\)"
    ):
        search(lambda rankings: fine(rankings)[:, None], 4, 2)
    with pytest.raises(ScoreError, match=r"the loss of ranking \[1, 0\] is nan"):
        search(lambda r: np.where(r[:, 0] == 1, np.nan, 0.0), 4, 2, starts=np.array([[1, 0]]))


# --- neighbors ------------------------------------------------------------------------------


def neighbors_of(ranking, n_policies, *, ordered):
    moves, depth = neighborhood(n_policies, len(ranking), ordered=ordered), len(ranking)
    whole = np.repeat(extended(np.array([ranking]), n_policies), len(moves.place), axis=0)
    return [tuple(row) for row in moved(whole, Moves(*moves), depth).tolist()]


@pytest.mark.parametrize(("n_policies", "ranking"), [(5, (3, 0, 4, 1, 2)), (6, (4, 1, 0, 5))])
def test_neighbors_are_all_swaps_insertions_and_replacements(n_policies, ranking):
    depth = len(ranking)
    unlisted = [i for i in range(n_policies) if i not in ranking]
    expected = set()
    for i, j in permutations(range(depth), 2):
        swapped, inserted = list(ranking), list(ranking)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        inserted.insert(j, inserted.pop(i))
        expected |= {tuple(swapped), tuple(inserted)}
    replaced = {(*ranking[:i], u, *ranking[i + 1 :]) for i in range(depth) for u in unlisted}
    pushed = {(*ranking[:i], u, *ranking[i:-1]) for i in range(depth) for u in unlisted}
    found = neighbors_of(ranking, n_policies, ordered=True)
    assert len(found) == len(set(found))
    assert set(found) == expected | replaced | pushed
    assert set(neighbors_of(ranking, n_policies, ordered=False)) == replaced


@pytest.mark.parametrize(("n_policies", "depth"), [(9, 9), (30, 6)])
@pytest.mark.parametrize("ordered", [True, False])
def test_kicks_go_further_than_a_move(n_policies, depth, ordered):
    ranking = np.arange(depth)
    rows = kicked(ranking, n_policies, 40, ordered=ordered)
    if not ordered and depth == n_policies:
        assert len(rows) == 0
        return
    assert len(rows) == 40
    assert len(np.unique(rows, axis=0)) == 40
    near = {tuple(ranking), *neighbors_of(tuple(ranking), n_policies, ordered=ordered)}
    kicks = {tuple(row) for row in rows.tolist()}
    assert not kicks & near
    assert all(len(set(row)) == depth and max(row) < n_policies for row in kicks)
    assert np.array_equal(rows, kicked(ranking, n_policies, 40, ordered=ordered))
    few = kicked(ranking, n_policies, 3, ordered=ordered)
    assert np.array_equal(few, rows[:3])
