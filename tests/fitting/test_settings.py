"""Settings: defaults, presets, and refusals that name the setting."""

import numpy as np
import pytest

from bayesdice_ppl import penalties
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference import SviSettings, make_settings


def test_defaults_are_the_calibrated_form():
    settings = make_settings(gamma=0.9)
    assert (settings.inference, settings.penalty, settings.inner) == (
        "svi",
        penalties.mahalanobis(),
        None,
    )
    assert settings.joint
    assert settings.small_sample
    assert settings.value_constraint
    assert (settings.xi, settings.prior_sd, settings.value_prior_sd) == (0.95, 10.0, 10.0)


def test_none_means_the_default():
    assert make_settings(gamma=0.5, draws=None, xi=None) == make_settings(gamma=0.5)


def test_preset_paper_is_squared_independent_and_without_reward_noise():
    settings = make_settings(gamma=0.9, preset="paper")
    assert settings.penalty == penalties.squared()
    assert not settings.value_constraint
    assert not settings.joint
    assert not settings.small_sample
    assert (settings.lam, settings.epsilon) == (None, None)


def test_preset_agrees_with_what_it_means():
    assert make_settings(gamma=0.9, preset="paper", joint=False) == make_settings(
        gamma=0.9, preset="paper"
    )


@pytest.mark.parametrize(
    "conflict",
    [
        {"penalty": "mahalanobis"},
        {"value_constraint": True},
        {"joint": True},
        {"small_sample": True},
    ],
    ids=str,
)
def test_conflicts_with_a_preset_are_refused_by_name(conflict):
    (name,) = conflict
    with pytest.raises(SettingsError, match=f"preset='paper' means {name}="):
        make_settings(gamma=0.9, preset="paper", **conflict)


@pytest.mark.parametrize("form", [{"penalty": "squared"}, {"value_constraint": False}], ids=str)
def test_small_sample_rule_needs_the_value_row_of_sigma(form):
    assert not make_settings(gamma=0.9, **form).small_sample
    with pytest.raises(SettingsError, match="small_sample=True needs"):
        make_settings(gamma=0.9, small_sample=True, **form)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"gamma": 1.5}, "gamma"),
        ({"gamma": -0.1}, "gamma"),
        ({"gamma": float("nan")}, "gamma"),
        ({"gamma": "0.9"}, "gamma"),
        ({"gamma": True}, "gamma"),
        ({"inference": "hmc"}, "inference"),
        ({"penalty": "huber"}, "penalty"),
        ({"surrogate": "chebyshev"}, "surrogate"),
        ({"inner": ["guide"]}, "inner"),
        ({"on_termination": "stop"}, "on_termination"),
        ({"cluster": "row"}, "cluster"),
        ({"preset": "mine"}, "preset"),
        ({"preset": ["paper"]}, "preset"),
        ({"joint": "no"}, "joint"),
        ({"small_sample": 1}, "small_sample"),
        ({"value_constraint": np.bool_(True)}, "value_constraint"),
        ({"draws": 1}, "draws"),
        ({"draws": 10.0}, "draws"),
        ({"draws": True}, "draws"),
        ({"prior_sd": 0.0}, "prior_sd"),
        ({"prior_sd": float("inf")}, "prior_sd"),
        ({"value_prior_sd": -1.0}, "value_prior_sd"),
        ({"lam": "3"}, "lam"),
        ({"epsilon": True}, "epsilon"),
        ({"xi": "0.9"}, "xi"),
        ({"svi": {"steps": 10}}, "svi"),
        ({"svi": SviSettings(steps=0)}, "svi.steps"),
        ({"svi": SviSettings(particles=2.5)}, "svi.particles"),
        ({"svi": SviSettings(learning_rate=0.0)}, "svi.learning_rate"),
    ],
    ids=str,
)
def test_unusable_settings_are_refused_by_name(options, named):
    with pytest.raises(SettingsError, match=f"^{named}: "):
        make_settings(**{"gamma": 0.9, **options})


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(SettingsError, match="'lambda' is no setting; known are 'gamma'"):
        make_settings(gamma=0.9, **{"lambda": 3.0})


def test_absorbed_mass_has_no_average_reward():
    with pytest.raises(SettingsError, match=r"absorb.*gamma = 1"):
        make_settings(gamma=1.0, on_termination="absorb")


def test_settings_are_hashable_so_that_compilation_can_depend_on_them():
    assert hash(make_settings(gamma=0.9)) == hash(make_settings(gamma=0.9))
