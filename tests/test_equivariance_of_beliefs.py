"""The laws of `tests/test_equivariance.py` for the library's own beliefs.

Every engine, penalty, surrogate and model is under them by being registered.
"""

import json

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.constraint.penalties import PENALTIES
from bayesdice_ppl.constraint.surrogates import SURROGATES
from bayesdice_ppl.fitting.gauges import DRIFT
from bayesdice_ppl.inference.engines import ENGINES
from tests.marks import slow
from tests.moved_rewards import (
    ACTIONS,
    EPS,
    KEY,
    MOVES,
    STATES,
    TARGETS,
    TINY_AND_FAR,
    frame_of,
    moved,
    renamed,
    tabled,
)

EQUAL = [0.1, 1e8, -1e-8, 0.0]

PLACED = {"value", "reward", "guide_mean", "prior_mean", "logged_value"}
SIZED = {
    "guide_sd",
    "prior_sd",
    "action_standard_error",
    "logged_value_standard_error",
    "reward_sd",
    "unseen_shift",
    "unseen_spread",
    "unseen_move",
}
SQUARED = {"unseen_covariance"}
"""What a belief holds in units of reward: places, sizes, squares. All else has no such unit."""

QUICK = {
    "exact": {"inference": "exact"},
    "episodes": {"cluster": "episode"},
    "logged": {"include_logged": True},
    "squared": {"constraint": bd.Constraint(penalty="squared")},
}
SHORT = {
    "svi": bd.inference.Svi(windows=2, steps=50),
    "nuts": bd.inference.Nuts(chains=2, warmup=30),
    "minmax": bd.inference.MinMax(steps=20, restarts=2, checks=2),
}
OWN_MODEL = {"minmax": bd.models.mean_deviation(3, 1, noise=2)}
NUMBER = {"power": "power(1.5)", "huber": "huber(0.1)"}
FORMS = {
    **{
        f"engine {each}": {
            "inference": SHORT.get(each, each),
            **({"model": OWN_MODEL[each]} if each in OWN_MODEL else {}),
        }
        for each in ENGINES
    },
    **{
        f"penalty {each}": {"constraint": bd.Constraint(penalty=NUMBER.get(each, each))}
        for each in PENALTIES
    },
    **{
        f"surrogate {each}": {
            "constraint": bd.Constraint(surrogate=each),
            "inference": SHORT["svi"],
        }
        for each in SURROGATES
    },
    **{
        f"link {each}": {"model": bd.models.linear(each), "inference": SHORT["svi"]}
        for each in ("softplus", "exp")
    },
    "model neural": {"model": bd.models.neural(3, 1), "inference": "laplace"},
}


def fitted(frame, gamma=0.9, **options):
    given = {"draws": 60, "policies": tabled(STATES, ACTIONS, TARGETS), **options}
    logs = bd.Logs.from_dataframe(frame)
    return bd.fit(logs, given.pop("policies"), gamma=gamma, rng_key=KEY, **given)


def leaves(belief):
    """Every number of a belief by name."""
    arrays = {
        name: np.asarray(array)
        for group in belief.children.values()
        for name, array in group.data_vars.items()
    }
    attrs = {name: each for name, each in belief.attrs.items() if isinstance(each, float)}
    return arrays | attrs


def check_belief(before, after, factor, constant):
    gamma = json.loads(before.attrs["settings"])["gamma"]
    one, two = leaves(before), leaves(after)
    assert two.keys() == one.keys()
    largest = np.abs(one["value"]).max() + np.abs(one["reward"]).max()
    place = 4 * EPS * (factor * largest + abs(constant))
    for name, array in one.items():
        if name in PLACED:
            np.testing.assert_allclose(two[name], factor * array + constant, rtol=0, atol=place)
        elif name in SIZED:
            np.testing.assert_allclose(two[name], factor * array, rtol=4 * EPS)
        elif name in SQUARED:
            np.testing.assert_allclose(two[name], factor**2 * array, rtol=4 * EPS)
        elif name == "unseen_base":
            # Steps at pairs that were never logged, and all that follow them.
            steps = one["unseen_mass"].sum(axis=1) / (1.0 - gamma)
            moved_base = factor * array + constant * steps
            np.testing.assert_allclose(two[name], moved_base, rtol=0, atol=place / (1.0 - gamma))
        else:
            np.testing.assert_array_equal(two[name], array)
    told, tells = (each.attrs["support_warnings"] for each in (before, after))
    assert tells == told


@pytest.mark.parametrize("move", [TINY_AND_FAR, *map(slow, MOVES)], ids=str)
@pytest.mark.parametrize("gamma", [0.9, 0.0, slow(1.0)])
@pytest.mark.parametrize("form", QUICK)
def test_beliefs_move_with_the_rewards(form, gamma, move):
    frame = frame_of()
    before = fitted(frame, gamma, **QUICK[form])
    check_belief(before, fitted(moved(frame, *move), gamma, **QUICK[form]), *move)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_so_do_those_of_every_engine_penalty_surrogate_and_model(form):
    frame = frame_of()
    before = fitted(frame, **FORMS[form])
    for move in (TINY_AND_FAR, MOVES[1]):
        check_belief(before, fitted(moved(frame, *move), **FORMS[form]), *move)


def test_beliefs_scale_where_an_end_is_worth_zero():
    frame, options = frame_of(), {"on_termination": "absorb"}
    factor = 2.0**27
    check_belief(
        fitted(frame, **options), fitted(moved(frame, factor, 0.0), **options), factor, 0.0
    )


@pytest.mark.parametrize("gamma", [0.9, 0.0])
def test_the_papers_form_counts_a_constant_as_often_as_its_ratios_say(gamma):
    # Its value is the mean of ratio times reward, draw by draw, and the mean of a ratio is not one.
    # Its draws do not look at the rewards, so the amount is what it makes of rewards of one.
    frame, constant = frame_of(), 2.0**20
    one, plain, far = (
        fitted(each, gamma, preset="paper")["posterior/value"].to_numpy()
        for each in (moved(frame, 0.0, 1.0), frame, moved(frame, 1.0, constant))
    )
    assert one.std(axis=(0, 1)).min() > 0.01
    # Rounding of the closed form, relative to what a constant adds.
    np.testing.assert_allclose(far, plain + constant * one, rtol=1e-9, atol=1e-9 * constant)


@pytest.mark.parametrize("reward", EQUAL)
def test_a_belief_about_equal_rewards_is_at_them(reward):
    belief = fitted(frame_of().with_columns(reward=pl.lit(reward)))
    # What makes Sigma invertible leaves a width of 1e-6.5 rewards at most.
    np.testing.assert_allclose(belief["posterior/value"], reward, rtol=1e-5)
    assert all("every logged reward is" in each["reason"] for each in _constant(belief))
    assert len(_constant(belief)) == 2


def _constant(belief):
    told = belief.attrs["support_warnings"]
    told = json.loads(told) if isinstance(told, str) else told
    return [each for each in told if "every logged" in each["reason"]]


def test_beliefs_keep_to_their_names():
    frame = frame_of()
    other, policies = renamed(frame)
    for gamma in (0.9, 0.0, 1.0):
        before, after = fitted(frame, gamma), fitted(other, gamma, policies=policies)
        for name in ("guide_mean", "guide_sd", "prior_mean", "moved_mass", "lost_mass"):
            one, two = (each[f"constant_data/{name}"] for each in (before, after))
            for policy in TARGETS:
                np.testing.assert_allclose(
                    two.sel(policy=policy), one.sel(policy=policy), atol=1e-9
                )
        orders = [bd.select(each, bd.scores.regret(k=1)).order for each in (before, after)]
        assert orders[0] == orders[1]


@pytest.mark.slow
def test_svi_keeps_to_its_names_as_far_as_it_says_it_has_converged():
    frame = frame_of()
    other, policies = renamed(frame)
    before, after = (
        fitted(each, inference="svi", policies=candidates)
        for each, candidates in ((frame, tabled(STATES, ACTIONS, TARGETS)), (other, policies))
    )
    for policy in TARGETS:
        mean, sd = (
            np.array(
                [each[f"constant_data/{n}"].sel(policy=policy).item() for each in (before, after)]
            )
            for n in ("guide_mean", "guide_sd")
        )
        assert abs(np.diff(mean)[0]) < DRIFT.warns * sd[0]
        assert abs(np.diff(np.log(sd))[0]) < DRIFT.warns


def test_a_belief_of_two_files_is_that_of_one_log():
    frame = frame_of()
    both = pl.concat([frame[:40], frame[40:]])
    check_belief(fitted(frame), fitted(both), 1.0, 0.0)
