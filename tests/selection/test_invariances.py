"""What must not matter to a selection: names, a constant, copies; and what is refused by name."""

import arviz as az
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.selection import select

N = 5
SCORES = [
    scores.precision(2),
    scores.accuracy(3),
    scores.regret(2),
    scores.normalized_regret(2),
    scores.ndcg(3),
    scores.correlation(3),
    scores.spearman(),
    scores.kendall(),
    scores.regret(2, risk=risk.cvar(0.25)),
]
REACH = [None, 1]
quick = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Dyadic numbers, so that sums, and constants added, are exact.
draws_of = st.lists(
    st.lists(st.integers(-16, 16), min_size=N, max_size=N), min_size=4, max_size=8
).map(lambda rows: np.array(rows, float) / 8)


def belief_of(values, names):
    return az.from_dict(
        {"posterior": {"value": values[None]}}, coords={"policy": names}, dims={"value": ["policy"]}
    )


def names_of(n):
    return [f"p{i}" for i in range(n)]


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@quick
@given(values=draws_of, order=st.permutations(range(N)))
def test_another_order_of_the_policies_gives_the_same_answer(score, reach, values, order):
    names = names_of(N)
    shuffled = belief_of(values[:, order], [names[i] for i in order])
    first = select(belief_of(values, names), score, max_evaluations=reach)
    second = select(shuffled, score, max_evaluations=reach)
    assert second.order == first.order
    assert second.launch == first.launch
    assert second.expected_loss == pytest.approx(first.expected_loss, abs=1e-12)
    assert second.certificate.status == first.certificate.status


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@quick
@given(values=draws_of, new=st.permutations(["ann", "bo", "cy", "di", "ed"]))
def test_relabeled_policies_relabel_the_answer(score, reach, values, new):
    # Names break ties of equal means: so they are kept apart by a little.
    values = values + np.arange(N) / 1024
    old = names_of(N)
    first = select(belief_of(values, old), score, max_evaluations=reach)
    second = select(belief_of(values, list(new)), score, max_evaluations=reach)
    if len(set(values.mean(axis=0))) == N:
        assert second.order == [new[old.index(name)] for name in first.order]
    assert second.expected_loss == pytest.approx(first.expected_loss, abs=1e-12)


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@quick
@given(values=draws_of, constant=st.sampled_from([-64.0, 0.5, 1024.0]))
def test_a_constant_added_to_all_values_changes_nothing(score, reach, values, constant):
    names = names_of(N)
    first = select(belief_of(values, names), score, max_evaluations=reach)
    second = select(belief_of(values + constant, names), score, max_evaluations=reach)
    assert second.order == first.order
    assert second.expected_loss == pytest.approx(first.expected_loss, abs=1e-12)


@pytest.mark.parametrize("reach", REACH)
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@quick
@given(values=draws_of)
def test_duplicates_tie(score, reach, values):
    values[:, 4] = values[:, 1]
    names = names_of(N)
    choice = select(belief_of(values, names), score, max_evaluations=reach)
    place = {name: choice.order.index(name) for name in ("p1", "p4")}
    swapped = [{"p1": "p4", "p4": "p1"}.get(name, name) for name in choice.order]
    ranking = np.array([[int(name[1:]) for name in order] for order in (choice.order, swapped)])
    losses = score.losses(values, ranking)
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-12)
    row = {row["policy"]: row for row in choice.table.to_dicts()}
    assert row["p1"]["p_best"] == pytest.approx(row["p4"]["p_best"])
    assert row["p1"]["expected_rank"] == pytest.approx(row["p4"]["expected_rank"])
    if reach is None or not score.averaged or score.name.startswith("correlation"):
        return
    # Of two that are alike in every draw the first by name is listed first.
    if not score.name.startswith(("regret", "normalized")):
        assert place["p1"] < place["p4"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_draws_that_are_no_numbers_are_refused_by_name(score, bad):
    values = np.zeros((6, N))
    values[3, 2] = bad
    belief = belief_of(values, ["a", "b", "thompson", "d", "e"])
    with pytest.raises(BeliefError, match="in 1 of 6 draws of policy 'thompson'"):
        select(belief, score)


def test_safe_improvement_keeps_the_baseline_unless_it_is_all_but_surely_beaten():
    better = np.full((100, 1), 1.0)
    doubtful = np.where(np.arange(100) < 20, -5.0, 5.0)[:, None]  # worse in 20 of 100 draws
    values = np.hstack([np.zeros((100, 1)), better, doubtful])
    belief = belief_of(values, ["now", "sure", "bold"])
    assert select(belief, scores.regret(1)).launch == ["bold"]
    safe = select(belief, scores.safe_improvement("now", xi=0.05))
    assert safe.launch == ["sure"]
    assert safe.notes[-1].startswith("sure is worth 1 more than now on average and is worse with")
    assert select(belief, scores.safe_improvement("now", xi=0.2)).launch == ["sure"]
    assert select(belief, scores.safe_improvement("now", xi=0.21)).launch == ["bold"]
    alone = belief_of(values[:, [0, 2]], ["now", "bold"])
    kept = select(alone, scores.safe_improvement("now", xi=0.05, k=2))
    assert kept.launch == ["now"]
    assert any("1 of 2 places are filled" in note for note in kept.notes)
    with pytest.raises(Exception, match="include_logged=True"):
        select(belief, scores.safe_improvement("logged"))
