"""A diagnosis says ok where the belief is sound, and warns about each fault put into it."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.fitting.gauges import GAUGES


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
    assert [verdict.word for verdict in diagnosis.verdicts] == ["look", "look"]
    (reason,) = diagnosis.verdict("p0").reasons
    assert (reason.check, reason.number, reason.threshold) == ("range", 1.0, 0.01)


def test_an_elbo_that_still_rises_fails(sound):
    _, _, belief = sound
    rising = belief.copy(deep=True)
    shape = rising["fit_data"]["elbo"].shape
    rising["fit_data"]["elbo"][:] = np.broadcast_to(np.linspace(0.0, 100.0, shape[1]), shape)
    diagnosis = bd.diagnose(rising)
    assert named(diagnosis)["convergence"].passed is False
    assert [reason.check for reason in diagnosis.verdict("p1").reasons] == ["convergence"]


def test_logs_that_earned_something_else_fail_the_self_check(sound):
    logs, _, belief = sound
    other = belief.copy(deep=True)
    other.attrs["logged_value"] = float(other.attrs["logged_value"]) + 100.0
    other.attrs["logged_value_tail"] = 0.0
    diagnosis = bd.diagnose(other, logs)
    assert named(diagnosis)["self-check"].passed is False
    assert {verdict.word for verdict in diagnosis.verdicts} == {"look"}


def test_weight_beyond_the_episodes_is_a_share_of_all_of_it(sound):
    logs, _, belief = sound
    other = belief.copy(deep=True)
    # Half as much weight lies beyond the episodes as in them: a third of all.
    other.attrs["logged_value_tail"] = 0.5
    found = named(bd.diagnose(other, logs))["self-check"]
    assert found.passed is None
    assert "33% of the discounted weight lies beyond" in found.message


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
    diagnosis = bd.diagnose(wide, logs, policies)
    assert named(diagnosis)["svi against closed form"].passed is False
    reasons = diagnosis.verdict("p0").reasons
    assert [reason.check for reason in reasons] == ["svi against closed form"]
    assert reasons[0].number > 0.4


def test_every_support_warning_is_a_failed_check(sound):
    _, _, belief = sound
    warned = belief.copy(deep=True)
    entry = {"policy": "a", "reason": "was never seen.", "abstain": True}
    warned.attrs["support_warnings"] = json.dumps([entry])
    assert named(bd.diagnose(warned))["support"] == ("support", False, "a: was never seen.")


def test_a_verdict_has_its_reasons_with_numbers_and_links(sound):
    _, _, belief = sound
    plain = bd.diagnose(belief)
    assert {verdict.word for verdict in plain.verdicts} == {"good"}
    assert "p0: good" in str(plain)
    warned = belief.copy(deep=True)
    entry = {"policy": "p0", "reason": "has few.", "abstain": False, "name": "effective episodes"}
    worse = {**entry, "reason": "has none.", "abstain": True, "number": 3.0, "threshold": 10.0}
    warned.attrs["support_warnings"] = json.dumps([entry, worse])
    diagnosis = bd.diagnose(warned)
    verdict = diagnosis.verdict("p0")
    assert verdict.word == "do not use"
    assert [reason.sentence for reason in verdict.reasons] == ["has none.", "has few."]
    assert verdict.reasons[0][2:4] == (3.0, 10.0)
    assert verdict.reasons[0].link == "docs/warnings.md#effective-episodes"
    assert "(3, threshold 10)" in str(diagnosis)
    assert diagnosis.verdict("p1").word == "good"
    assert diagnosis.by_policy["verdict"].to_list() == ["do not use", "do not use", "good"]
    with pytest.raises(BeliefError, match="p0, p1"):
        diagnosis.verdict("nobody")


def test_a_prior_that_decides_is_told_and_one_that_does_not_is_not(plain):
    logs, policies = plain.log(4), plain.policies(4, 2)
    given = {"gamma": 0.9, "rng_key": jax.random.key(0), "draws": 10}
    open_minded = named(bd.diagnose(bd.fit(logs, policies, **given), logs, policies))
    assert open_minded["sensitivity to prior"].passed
    # Prices of half and double make sds wider and narrower by their root.
    assert "sds are 0.71 to 1.41 times" in open_minded["sensitivity to price"].message
    narrow = bd.Prior(ratio_sd=0.02, value_sd=0.02, rare_share=0.0)
    sure = bd.diagnose(bd.fit(logs, policies, prior=narrow, **given), logs, policies)
    assert named(sure)["sensitivity to prior"].passed is False
    assert any(r.check == "sensitivity to prior" for v in sure.verdicts for r in v.reasons)
    kept = named(bd.diagnose(bd.fit(logs, policies, **given), logs, policies, sensitive=False))
    assert "sensitive=True" in kept["sensitivity to prior"].message


def test_every_link_of_a_reason_leads_somewhere():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "diagnostics.md").read_text(encoding="utf-8")
    for check in (
        "range",
        "convergence",
        "self-check",
        "svi against closed form",
        "sensitivity to prior",
        "sensitivity to price",
    ):
        assert f"\n## {check}\n" in page.lower()
    named = (docs / "warnings.md").read_text(encoding="utf-8")
    assert all(f'<a id="{gauge.name.replace(" ", "-")}">' in named for gauge in GAUGES)


def test_another_tree_is_refused():
    import xarray as xr

    with pytest.raises(BeliefError, match="fit"):
        bd.diagnose(xr.DataTree())


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"preset": "paper"}, "the penalty is squared, not mahalanobis and there is no value"),
        ({"constraint": bd.Constraint(lam=3.0)}, "lam was given"),
        ({"constraint": bd.Constraint(epsilon=0.1)}, "epsilon was given"),
    ],
    ids=["paper", "lam", "epsilon"],
)
def test_a_form_that_is_not_calibrated_is_told(sound, form, said):
    logs, policies, _ = sound
    other = bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0), draws=100, **form)
    found = bd.diagnose(other)
    assert said in named(found)["form"].message
    assert all("form" in {each.check for each in v.reasons} for v in found.verdicts)


@pytest.mark.parametrize(
    ("setting", "value"), [("surrogate", "cdf"), ("penalty", "huber(1)"), ("penalty", "my_own")]
)
def test_a_form_is_known_by_the_belief_alone(sound, setting, value):
    belief = sound[2]
    assert "form" not in named(bd.diagnose(belief))
    other = belief.copy(deep=True)
    other.attrs["settings"] = json.dumps(json.loads(belief.attrs["settings"]) | {setting: value})
    assert f"the {setting} is {value}" in named(bd.diagnose(other))["form"].message
