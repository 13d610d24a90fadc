"""Odd scores and beliefs through `select`: nothing wrong may come with a proof."""

import re

import arviz as az
import jax.numpy as jnp
import numpy as np
import pytest

from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import BeliefError, ScoreError, SettingsError
from bayesdice_ppl.selection import select
from bayesdice_ppl.selection.problem import RankingProblem
from bayesdice_ppl.selection.rules import no_rules
from bayesdice_ppl.selection.solvers.objective import _agree, _compiled


def belief_of(values):
    names = [f"p{i}" for i in range(values.shape[1])]
    return az.from_dict(
        {"posterior": {"value": values[None]}}, coords={"policy": names}, dims={"value": ["policy"]}
    )


@pytest.fixture
def draws():
    return np.random.default_rng(4).normal(size=(300, 7)) + 0.1 * np.arange(7)


@pytest.mark.parametrize("reach", [None, 2500])
def test_a_function_that_is_no_number_for_one_ranking_is_refused(draws, reach):
    def function(values, ranking):
        weight = (ranking[0] - 3) ** 2 + (ranking[1] - 1) ** 2 + 0.0
        return values[:, ranking[0]] + weight / weight - 1

    with np.errstate(invalid="ignore"), pytest.raises(ScoreError, match=r"nan|not finite"):
        select(belief_of(draws), scores.custom(function), max_evaluations=reach)


def second_best(values, ranking):
    return jnp.max(values, axis=1) - jnp.maximum(values[:, ranking[0]], values[:, ranking[1]])


def test_a_function_of_jax_sees_the_draws_in_double_precision():
    values = 1e5 + 1e-3 * np.random.default_rng(5).normal(size=(400, 5))
    own = select(belief_of(values), scores.custom(second_best, depth=2))
    built_in = select(belief_of(values), scores.regret(2))
    assert set(own.launch) == set(built_in.launch)
    assert own.expected_loss == pytest.approx(built_in.expected_loss, rel=1e-9)
    problem = RankingProblem(values, scores.custom(second_best, depth=2), no_rules(5))
    assert _agree(_compiled(problem), problem, 2)


@pytest.mark.parametrize("reach", [None, 600])
def test_functions_of_jax_and_numpy_under_risks_and_rules(draws, reach):
    def plain(values, ranking):
        assert isinstance(ranking, np.ndarray)  # what JAX hands over is none
        listed = np.maximum(values[:, ranking[0]], values[:, ranking[1]])
        return listed - values.max(axis=1)

    rules = {"must_include": ["p3"], "must_exclude": ["p6"], "max_evaluations": reach}
    tail = {"depth": 2, "risk": risk.cvar(0.2)}
    by_jax = select(belief_of(draws), scores.custom(second_best, **tail), **rules)
    by_numpy = select(
        belief_of(draws), scores.custom(plain, higher_is_better=True, **tail), **rules
    )
    built_in = select(belief_of(draws), scores.regret(2, risk=risk.cvar(0.2)), **rules)
    for choice in (by_jax, by_numpy):
        assert sorted(choice.launch) == sorted(built_in.launch)
        assert choice.expected_loss == pytest.approx(built_in.expected_loss, abs=1e-12)


@pytest.mark.parametrize("reach", [None, 1])
def test_a_hopeless_candidate_does_not_make_the_others_equal(reach):
    rng = np.random.default_rng(6)
    good = 1e-4 * rng.normal(size=(500, 5))
    values = np.column_stack([good, np.full(500, -1e9)])
    alone = select(belief_of(good), scores.regret(2), max_evaluations=reach)
    choice = select(belief_of(values), scores.regret(2), max_evaluations=reach)
    assert choice.launch == alone.launch
    assert choice.certificate.margin > 0.0


def test_names_may_come_from_a_generator(draws):
    choice = select(belief_of(draws), scores.regret(1), must_include=(n for n in ["p0"]))
    assert choice.launch == ["p0"]
    for wrong in (5, None):
        with pytest.raises(SettingsError, match="must_include: expected a list of names"):
            select(belief_of(draws), scores.regret(1), must_include=wrong)


def test_the_baseline_stays_in_words():
    values = np.column_stack([np.ones(50), np.zeros(50)])
    choice = select(belief_of(values), scores.safe_improvement("p0"))
    assert choice.answer.startswith("Keep p0, as no other policy is surely enough an improvement")
    with pytest.raises(SettingsError, match="at least one policy left that safe improvement"):
        select(belief_of(values), scores.safe_improvement("p0"), must_exclude=["p0"])


def test_one_choice_only_and_a_dominated_runner_up(draws):
    every = select(belief_of(draws), scores.regret(7))
    assert every.certificate.statement == "There is only one choice."
    few = np.array([[3.0, 1.0], [3.0, 2.9], [3.0, -9.0]])
    certificate = select(belief_of(few), scores.regret(1)).certificate
    assert certificate.runner_up_better == 0.0
    assert "tie" not in certificate.statement


def test_a_score_may_be_called_anything(draws):
    own = scores.custom(lambda v, r: -v[:, r[0]], name="share of wins", depth=1)
    assert re.search(r"expected share of wins loss", select(belief_of(draws), own).answer)


def test_a_loss_that_is_zero_but_for_rounding_is_not_blamed_for_its_depth(draws):
    own = scores.custom(lambda v, r: v[:, r].mean(axis=1) - v.mean(axis=1), name="zero", depth=1)
    assert abs(select(belief_of(draws), own).expected_loss) < 1e-12


def test_values_too_far_apart_are_refused(draws):
    draws[0, :2] = [1.7e308, -1.7e308]
    with pytest.raises(BeliefError, match="too far apart for double precision"):
        select(belief_of(draws), scores.regret(2))


def test_numpy_integers_will_do(draws):
    choice = select(belief_of(draws), scores.regret(np.int64(2)), max_evaluations=np.int64(50))
    assert choice.certificate.method == "exhaustive"


def test_k_too_large(draws):
    with pytest.raises(ScoreError, match="expected at least 8 candidates, found 7"):
        select(belief_of(draws), scores.precision(8))


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "many"])
def test_max_evaluations(draws, limit):
    with pytest.raises(SettingsError, match="max_evaluations"):
        select(belief_of(draws), scores.regret(2), max_evaluations=limit)
    assert select(belief_of(draws), scores.regret(2)).certificate.method == "exhaustive"
    beyond = select(belief_of(draws), scores.regret(2), max_evaluations=9)
    assert beyond.certificate.method == "branch and bound"
