"""A diagnosis says ok where the belief is sound, and warns about each fault put into it."""

import json

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import BeliefError


@pytest.fixture(scope="module")
def sound(plain):
    logs, policies = plain.log(4), plain.policies(4, 2)
    options = {"gamma": 0.9, "rng_key": jax.random.key(0), "inference": "svi"}
    return logs, policies, bd.fit(logs, policies, **options)


def named(diagnosis):
    return {check.name: check for check in diagnosis.checks}


def test_a_sound_belief_passes_the_checks_that_can_be_made(sound):
    logs, policies, belief = sound
    checks = named(bd.diagnose(belief, logs, policies))
    assert checks["range"].passed
    assert checks["convergence"].passed
    assert checks["svi against closed form"].passed
    assert checks["self-check"].passed is not False
    assert checks["chance constraint"].passed is None


def test_the_table_and_the_text_hold_every_check(sound):
    logs, _, belief = sound
    diagnosis = bd.diagnose(belief, logs)
    assert diagnosis.table.height == len(diagnosis.checks)
    assert all(check.message in str(diagnosis) for check in diagnosis.checks)


def test_a_belief_outside_the_rewards_range_fails(sound):
    _, _, belief = sound
    moved = belief.copy(deep=True)
    moved["posterior"]["value"] = moved["posterior"]["value"] + 100.0
    diagnosis = bd.diagnose(moved)
    assert named(diagnosis)["range"].passed is False
    assert not diagnosis.passed


def test_an_elbo_that_still_rises_fails(sound):
    _, _, belief = sound
    rising = belief.copy(deep=True)
    shape = rising["fit_data"]["elbo"].shape
    rising["fit_data"]["elbo"][:] = np.broadcast_to(np.linspace(0.0, 100.0, shape[1]), shape)
    assert named(bd.diagnose(rising))["convergence"].passed is False


def test_logs_that_earned_something_else_fail_the_self_check(sound):
    logs, _, belief = sound
    other = belief.copy(deep=True)
    other.attrs["logged_value"] = float(other.attrs["logged_value"]) + 100.0
    other.attrs["logged_value_tail"] = 0.0
    assert named(bd.diagnose(other, logs))["self-check"].passed is False


def test_a_standard_error_that_is_none_is_unknown_and_not_ok(sound):
    logs, _, belief = sound
    for error in (float("nan"), 0.0):
        other = belief.copy(deep=True)
        other.attrs["logged_value_standard_error"] = error
        assert named(bd.diagnose(other, logs))["self-check"].passed is None


def test_a_guide_that_is_too_wide_fails_against_the_closed_form(sound):
    logs, policies, belief = sound
    wide = belief.copy(deep=True)
    wide["constant_data"]["guide_sd"] = 1.5 * wide["constant_data"]["guide_sd"]
    assert named(bd.diagnose(wide, logs, policies))["svi against closed form"].passed is False


def test_every_support_warning_is_a_failed_check(sound):
    _, _, belief = sound
    warned = belief.copy(deep=True)
    entry = {"policy": "a", "reason": "was never seen.", "abstain": True}
    warned.attrs["support_warnings"] = json.dumps([entry])
    assert named(bd.diagnose(warned))["support"] == ("support", False, "a: was never seen.")


def test_another_tree_is_refused():
    import xarray as xr

    with pytest.raises(BeliefError, match="fit"):
        bd.diagnose(xr.DataTree())
