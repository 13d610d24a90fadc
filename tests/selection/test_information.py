"""Value of information against closed forms, numerical integrals, and enumeration by hand."""

import json
from itertools import combinations, permutations

import arviz as az
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import BeliefError, ScoreError, SettingsError
from bayesdice_ppl.selection.information import value_of_information
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.quick_ranking import quick_ranking
from bayesdice_ppl.selection.rules import no_rules, read_rules

Z = 4.5


def belief_of(values, names=None, chains=1):
    values = np.asarray(values, float)
    names = names or [f"p{i}" for i in range(values.shape[1])]
    return az.from_dict(
        {"posterior": {"value": values.reshape(chains, -1, values.shape[1])}},
        coords={"policy": names},
        dims={"value": ["policy"]},
    )


def worth(found):
    """What each policy is worth and its standard error, by name."""
    return {
        row["policy"]: (row["value_of_information"], row["standard_error"])
        for row in found.table.to_dicts()
    }


def unit_loss(mean, sd):
    """E max(0, X) of X normal with this mean and sd."""
    return sd * stats.norm.pdf(mean / sd) + mean * stats.norm.cdf(mean / sd)


@pytest.mark.parametrize(
    ("mean", "sd", "correlation"),
    [((0.0, 0.3), (1.0, 0.5), 0.2), ((0.1, 0.0), (0.5, 0.6), -0.5), ((2.0, 2.0), (1.0, 2.0), 0.0)],
)
def test_two_normals_in_closed_form(mean, sd, correlation):
    """The better mean is chosen now; v_j - v_i given v_i is linear in it, so has a normal mean."""
    covariance = np.outer(sd, sd) * [[1.0, correlation], [correlation, 1.0]]
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, 10_000)
    found = value_of_information(belief_of(draws), scores.regret(1))
    ahead = abs(mean[1] - mean[0])
    for i, name in enumerate(["p0", "p1"]):
        spread = abs(covariance[0, 1] - covariance[i, i]) / sd[i]
        exact = unit_loss(-ahead, spread)
        value, error = worth(found)[name]
        assert abs(value - exact) <= Z * error
    # Clark 1961: the difference of the two has this sd.
    apart = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert abs(found.perfect - unit_loss(-ahead, apart)) < Z * found.standard_error


MEANS, SDS = np.array([0.2, 0.1, 0.0, -0.1, -0.4]), np.array([0.2, 0.5, 0.3, 0.8, 0.4])


def expect(function, mean, sd):
    """E function(v), v normal."""
    density = stats.norm(mean, sd).pdf
    return quad(lambda v: function(v) * density(v), mean - 9 * sd, mean + 9 * sd, limit=200)[0]


def test_five_independent_normals_by_integration():
    """With one policy to choose, knowing v_i replaces its mean by v_i."""
    draws = np.random.default_rng(2).normal(MEANS, SDS, (10_000, 5))
    found = value_of_information(belief_of(draws), scores.regret(1))
    for i in range(5):
        others = np.delete(MEANS, i).max()
        exact = expect(lambda v, c=others: max(v, c), MEANS[i], SDS[i]) - MEANS.max()
        value, error = worth(found)[f"p{i}"]
        assert abs(value - exact) <= Z * error
    assert found.table["policy"][0] == "p3"


def mean_of_larger(mean, sd, other_mean, other_sd):
    """E max of two independent normals."""
    return other_mean + unit_loss(mean - other_mean, np.hypot(sd, other_sd))


def test_three_normals_and_two_to_choose_by_integration():
    mean, sd = np.array([0.3, 0.2, 0.0]), np.array([0.4, 0.3, 0.7])
    draws = np.random.default_rng(3).normal(mean, sd, (16_000, 3))
    found = value_of_information(belief_of(draws), scores.regret(2))
    pairs = {
        pair: mean_of_larger(mean[pair[0]], sd[pair[0]], mean[pair[1]], sd[pair[1]])
        for pair in combinations(range(3), 2)
    }
    for i in range(3):
        others = [j for j in range(3) if j != i]

        def best_pair(v, i=i, others=others):
            with_it = [v + unit_loss(mean[j] - v, sd[j]) for j in others]
            return max(*with_it, pairs[tuple(others)])

        exact = expect(best_pair, mean[i], sd[i]) - max(pairs.values())
        value, error = worth(found)[f"p{i}"]
        assert abs(value - exact) <= Z * error


# Every policy takes one of three values, which no other takes: 3^4 atoms without ties.
LEVELS = np.array([[0.0, 1.0, 2.0], [0.31, 0.93, 1.67], [0.4, 1.2, 1.3], [-0.5, 0.7, 2.2]])
ATOMS = np.array(np.meshgrid(range(3), range(3), range(3), range(3))).reshape(4, -1).T
ATOM_VALUES = LEVELS[np.arange(4), ATOMS]
_WEIGHT = np.random.default_rng(5).dirichlet(np.full(81, 0.7))
ORDERS = list(permutations(range(4)))


def true_places(values):
    return np.argsort(np.argsort(-values)) + 1


def loss_by_hand(kind, k, values, order):
    place = true_places(values)
    listed = np.argsort(order) + 1
    if kind == "regret":
        return values.max() - values[list(order[:k])].max()
    if kind == "precision":
        return 1 - sum(place[i] <= k for i in order[:k]) / k
    if kind == "accuracy":
        return 1 - sum(place[i] == j + 1 for j, i in enumerate(order[:k])) / k
    if kind == "spearman":
        return 1 - stats.spearmanr(place, listed).statistic
    if kind == "kendall":
        return 1 - stats.kendalltau(place, listed).statistic
    best = place <= k  # correlation
    return 1 - stats.pearsonr(place[best], listed[best]).statistic


@pytest.mark.parametrize(
    ("kind", "k", "rules"),
    [
        ("regret", 1, {}),
        ("regret", 2, {}),
        ("regret", 1, {"must_exclude": ["p3"]}),
        ("regret", 2, {"must_include": ["p1"]}),
        ("regret", 2, {"costs": {"p0": 1, "p1": 2, "p2": 1, "p3": 3}, "budget": 3}),
        ("precision", 2, {}),
        ("precision", 2, {"must_include": ["p1"]}),
        ("accuracy", 2, {}),
        ("accuracy", 2, {"must_exclude": ["p0"]}),
        ("correlation", 3, {}),
        ("spearman", None, {}),
        ("kendall", None, {}),
    ],
)
def test_discrete_beliefs_by_enumeration(kind, k, rules):
    """Over all orders and all 81 atoms: the best choice before, and given each value of one."""
    draws = ATOM_VALUES[np.random.default_rng(6).choice(81, 8_000, p=_WEIGHT)]
    score = getattr(scores, kind)(*([] if k is None else [k]))
    found = value_of_information(belief_of(draws), score, **rules)

    def allowed(order):
        head = {f"p{i}" for i in order[:k]}
        return head >= set(rules.get("must_include", ())) and not head & set(
            rules.get("must_exclude", ())
        )

    costs = rules.get("costs")
    orders = [order for order in ORDERS if allowed(order)]
    if costs:  # fewer may be launched: as sets of any size
        orders = [
            s
            for size in (1, 2)
            for s in combinations(range(4), size)
            if sum(costs[f"p{i}"] for i in s) <= rules["budget"]
        ]
    table = np.array([[loss_by_hand(kind, k, v, order) for v in ATOM_VALUES] for order in orders])
    now = (table @ _WEIGHT).min()
    perfect = now - table.min(axis=0) @ _WEIGHT
    assert abs(found.perfect - perfect) < Z * found.standard_error
    for i in range(4):
        given = [
            ((table * _WEIGHT)[:, ATOMS[:, i] == level].sum(axis=1)).min() for level in range(3)
        ]
        value, error = worth(found)[f"p{i}"]
        assert abs(value - (now - sum(given))) <= Z * error + 1e-12


def steps(n_draws=4_000):
    """A is surely worth 1 and B 0.9; C is worth 0 or 2, as often."""
    values = np.tile([1.0, 0.9, 0.0], (n_draws, 1))
    values[::2, 2] = 2.0
    return belief_of(values, ["A", "B", "C"])


def test_what_is_worth_knowing_depends_on_how_many_go_live():
    """One: A loses 1 where C has 2, half of the time. Two: A and C lose nothing."""
    one = value_of_information(steps(), scores.regret(1))
    assert one.perfect == pytest.approx(0.5, abs=1e-12)
    assert worth(one)["C"][0] == pytest.approx(0.5, abs=1e-12)
    assert worth(one)["A"] == worth(one)["B"] == (0.0, 0.0)
    assert one.table["share_of_perfect"].to_list() == pytest.approx([1.0, 0.0, 0.0])
    assert "'C' alone would save 0.5: learn about it first" in one.answer
    two = value_of_information(steps(), scores.regret(2))
    assert two.perfect == 0.0
    assert set(two.table["value_of_information"]) == {0.0}
    assert two.answer.startswith("Nothing is left to gain")


def some_belief(n_policies=5, n_draws=2_000, seed=8, **options):
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(size=n_policies) * 0.5, rng.uniform(0.3, 1.0, n_policies)
    common = rng.normal(size=(n_draws, 1))
    return belief_of(
        mean + sd * (0.6 * common + 0.8 * rng.normal(size=(n_draws, n_policies))), **options
    )


@pytest.mark.parametrize("score", [scores.regret(2), scores.precision(2), scores.kendall()])
def test_no_part_is_worth_more_than_all_and_none_less_than_nothing(score):
    found = value_of_information(some_belief(), score)
    values = found.table["value_of_information"]
    assert values.min() >= 0.0
    assert 0.0 < values.max() <= found.perfect
    assert values.to_list() == sorted(values, reverse=True)
    assert found.table["share_of_perfect"].to_list() == pytest.approx(
        (values / found.perfect).to_list()
    )


def test_duplicates_have_the_same_numbers_and_the_irrelevant_none():
    values = some_belief(3).posterior["value"].values[0]
    hopeless = -20.0 + values[:, :1] ** 2
    values = np.concatenate([values, values[:, [1]], hopeless], axis=1)
    found = worth(value_of_information(belief_of(values), scores.regret(1)))
    assert found["p1"] == found["p3"]
    assert found["p1"][0] > 0.0
    # It is the square of p0, which does tell whether p0 is far from its middle: not nothing.
    independent = np.random.default_rng(9).normal(-20.0, 1.0, (len(values), 1))
    found = worth(
        value_of_information(belief_of(np.concatenate([values, independent], 1)), scores.regret(1))
    )
    assert found["p5"][0] < 0.05 * found["p1"][0]


def test_noise_is_no_gain():
    """Thirty policies are all alike, and the last tells nothing of them: it is worth nothing.

    Judged on the draws that it was learned from, a choice that follows noise would seem to gain.
    """
    rng = np.random.default_rng(15)
    values = np.concatenate([rng.normal(size=(1_000, 30)), rng.normal(-20, 1, (1_000, 1))], axis=1)
    found = worth(value_of_information(belief_of(values), scores.regret(1)))
    value, error = found["p30"]
    assert value <= Z * error
    assert value < 0.05 * min(found[f"p{i}"][0] for i in range(30))


def test_names_order_and_origin_do_not_matter():
    belief = some_belief()
    values = belief.posterior["value"].values[0]
    first = value_of_information(belief, scores.regret(2))
    order = [3, 0, 4, 2, 1]
    turned = belief_of(values[:, order], [f"p{i}" for i in order])
    moved = belief_of(values + 64.0)
    assert value_of_information(turned, scores.regret(2)).table.equals(first.table)
    assert value_of_information(belief, scores.regret(2)).table.equals(first.table)
    other = worth(value_of_information(moved, scores.regret(2)))
    for name, numbers in worth(first).items():
        assert other[name] == pytest.approx(numbers, rel=1e-9, abs=1e-12)


# With ties: the least loss of each draw, over all rankings that are allowed.


def integers(n_policies, n_draws=120, seed=10):
    return np.random.default_rng(seed).integers(0, 4, (n_draws, n_policies)).astype(float)


@pytest.mark.parametrize(
    "score",
    [
        scores.precision(2),
        scores.accuracy(3),
        scores.regret(1),
        scores.normalized_regret(1),
        scores.ndcg(2),
        scores.correlation(2),
        scores.correlation(4),
        scores.spearman(),
        scores.kendall(),
    ],
    ids=lambda score: score.name,
)
def test_least_loss_of_draws_with_ties(score):
    values = integers(4)
    losses = score.losses(values, np.array(ORDERS))
    found = value_of_information(belief_of(values), score)
    exact = losses.mean(axis=1).min() - losses.min(axis=0).mean()
    assert found.perfect == pytest.approx(exact, abs=1e-12)
    assert exact > 0.05


@pytest.mark.parametrize(
    ("score", "rules"),
    [
        (scores.precision(2), {"must_include": ["p1"]}),
        (scores.accuracy(3), {"must_include": ["p0"], "must_exclude": ["p2"]}),
        (scores.ndcg(2), {"must_exclude": ["p2", "p3"]}),
        (scores.regret(2), {"must_include": ["p4", "p1"]}),
        (scores.regret(2), {"must_include": ["p0"], "must_exclude": ["p1"]}),
        (scores.normalized_regret(1), {"must_exclude": ["p2", "p0"]}),
    ],
    ids=lambda part: getattr(part, "name", None),
)
def test_least_loss_of_draws_under_rules(score, rules):
    values = integers(5)
    rows = [
        row
        for row in permutations(range(5), score.k)
        if {f"p{i}" for i in row} >= set(rules.get("must_include", ()))
        and not {f"p{i}" for i in row} & set(rules.get("must_exclude", ()))
    ]
    losses = score.losses(values, np.array(rows))
    exact = losses.mean(axis=1).min() - losses.min(axis=0).mean()
    assert value_of_information(belief_of(values), score, **rules).perfect == pytest.approx(
        exact, abs=1e-12
    )


@pytest.mark.parametrize("required", [[], [0]])
def test_least_regret_under_a_budget(required):
    """With the first required there is room for one more, that costs 2 at most."""
    values, cost = integers(5), [3.0, 1.0, 2.0, 2.0, 5.0]
    sets = [
        members
        for size in (1, 2, 3)
        for members in combinations(range(5), size)
        if sum(cost[i] for i in members) <= 5.0 and set(members) >= set(required)
    ]
    losses = np.array([values.max(axis=1) - values[:, list(s)].max(axis=1) for s in sets])
    found = value_of_information(
        belief_of(values),
        scores.regret(3),
        costs={f"p{i}": c for i, c in enumerate(cost)},
        budget=5.0,
        must_include=[f"p{i}" for i in required],
    )
    exact = losses.mean(axis=1).min() - losses.min(axis=0).mean()
    assert found.perfect == pytest.approx(exact, abs=1e-12)
    assert exact > 0.05


@pytest.mark.parametrize(
    ("score", "rules", "message"),
    [
        (
            scores.custom(lambda values, ranking: values[:, 0], name="mine"),
            {},
            "mine: expected precision, accuracy",
        ),
        (
            scores.safe_improvement(baseline="p0", xi=0.1),
            {},
            "safe improvement on p0, .*: expected precision",
        ),
        (scores.regret(1, risk=risk.cvar(0.1)), {}, "Leave out risk="),
        (scores.correlation(3), {}, "'p.' and 'p.' have equal values in draw"),
        (scores.correlation(2), {"must_exclude": ["p0"]}, "under rules on the launch"),
        (
            scores.precision(2),
            {"costs": dict.fromkeys(["p0", "p1", "p2", "p3"], 2), "budget": 3},
            "under a budget",
        ),
        (lambda values: values, {}, "score: expected one of bayesdice_ppl.scores"),
    ],
)
def test_what_is_not_known_is_refused(score, rules, message):
    with pytest.raises(ScoreError, match=message):
        value_of_information(belief_of(integers(4)), score, **rules)


def test_a_budget_that_rules_nothing_out_is_no_obstacle():
    costs = dict.fromkeys(["p0", "p1", "p2", "p3"], 1)
    belief = belief_of(integers(4))
    bound = value_of_information(belief, scores.precision(2), costs=costs, budget=2)
    assert bound.perfect == pytest.approx(value_of_information(belief, scores.precision(2)).perfect)


def test_too_few_draws_and_impossible_rules():
    with pytest.raises(BeliefError, match="a belief of at least 100 draws, found 99"):
        value_of_information(belief_of(integers(4, 99)), scores.regret(1))
    with pytest.raises(SettingsError, match="must_include: expected at most 1 candidates"):
        value_of_information(belief_of(integers(4)), scores.regret(1), must_include=["p0", "p1"])


def test_chains_widen_the_error():
    """Draws that repeat themselves tell less than as many that do not."""
    values = np.repeat(
        np.random.default_rng(11).normal([0.0, 0.1], [1.0, 0.5], (500, 2)), 8, axis=0
    )
    alone = value_of_information(belief_of(values), scores.regret(1))
    chains = value_of_information(belief_of(values, chains=4), scores.regret(1))
    assert chains.perfect == alone.perfect
    assert chains.standard_error > 1.5 * alone.standard_error
    assert worth(chains)["p0"][1] > 1.5 * worth(alone)["p0"][1]


def test_shown_as_text_and_as_html():
    values = some_belief(3).posterior["value"].values[0]
    found = value_of_information(belief_of(values, ["a<b", "c", "d"]), scores.precision(1))
    text, html = str(found), found._repr_html_()
    assert text.startswith(
        f"Knowing every value would save {found.perfect:.3g} in expected precision@1 loss; "
    )
    assert "%" in text.splitlines()[-1]
    assert "a&lt;b" in html
    assert "a<b" not in html
    assert "InformationValue(perfect=" in repr(found)
    regret = value_of_information(belief_of(values), scores.regret(1))
    assert " per step; " in regret.answer


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"must_include": ["p12"]},
        {"costs": {f"p{i}": 1 + i % 3 for i in range(13)}, "budget": 6},
    ],
)
def test_good_launches_cannot_be_bettered_by_one_exchange(rules):
    values = np.random.default_rng(12).normal(size=(200, 13)) + np.linspace(0.5, 0.0, 13)
    names = tuple(f"p{i}" for i in range(13))
    read = read_rules(names, **rules)
    start = (0, 1, 12) if read.required.any() else (0, 1)
    found = quick_ranking(RankingProblem(values, scores.regret(4), read), start)
    assert len(set(found)) == len(found) <= 4
    assert read.allow(np.array([found]))[0]

    def loss(members):
        return (values.max(axis=1) - values[:, list(members)].max(axis=1)).mean()

    near = [set(found) - {out} | {i} for out in found for i in range(13)]
    near += [set(found) | {i} for i in range(13)]
    near = [s for s in near if len(s) <= 4 and read.allow(np.array([sorted(s)]))[0]]
    assert len(near) > 10
    assert loss(found) <= min(map(loss, near)) + 1e-12


def test_good_orders_beat_where_they_start():
    values = np.random.default_rng(13).normal(size=(50, 9)) + np.linspace(1.0, 0.0, 9)
    for score in (scores.kendall(), scores.correlation(3)):
        start = tuple(range(8, -1, -1))
        found = quick_ranking(RankingProblem(values, score, no_rules(9)), start)
        losses = score.losses(values, np.array([start, found])).mean(axis=1)
        assert sorted(found) == list(range(9))
        assert losses[1] < losses[0] - 0.3


def test_what_is_certain_leaves_nothing_to_gain():
    """Values that no float holds exactly: what their losses differ by is rounding."""
    values = np.tile(np.array([0.1, 0.3, 0.7]), (200, 1))
    for score in (scores.ndcg(3), scores.spearman(), scores.regret(1), scores.kendall()):
        found = value_of_information(belief_of(values), score)
        assert found.perfect == 0.0
        assert set(found.table["value_of_information"]) == {0.0}
        assert found.answer.startswith("Nothing is left to gain")


def test_no_single_value_may_be_worth_knowing():
    """One draw of 400 is turned around, and none of the others tells what that means."""
    values = np.random.default_rng(14).normal([1.0, 0.0], [0.02, 0.02], (400, 2))
    values[0] = [0.0, 1.0]
    found = value_of_information(belief_of(values), scores.regret(1))
    assert found.perfect == pytest.approx(1 / 400)
    assert "no single policy's value would save more than these draws can show" in found.answer


def test_long_tables_are_cut_and_warnings_are_passed_on():
    belief = some_belief(22, 100)
    belief.attrs["support_warnings"] = json.dumps(
        [{"policy": "p3", "reason": "never logged", "abstain": True}]
    )
    found = value_of_information(belief, scores.precision(1))
    lines = str(found).splitlines()
    assert len(found.table) == 22
    assert len(lines) == 1 + 1 + 1 + 20 + 2
    assert lines[-2:] == ["... and 2 more in the table", "Warning: p3: never logged"]
    assert "<p>Warning: p3: never logged</p>" in found._repr_html_()
