"""Settings: defaults, presets, and refusals that name the setting."""

from dataclasses import replace

import numpy as np
import pytest

from bayesdice_ppl import penalties
from bayesdice_ppl.constraint import Constraint
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import FitSettings, Numerics, flat_settings
from bayesdice_ppl.inference import Nuts, Svi
from bayesdice_ppl.models import linear
from bayesdice_ppl.moments import Prior


def test_defaults_are_the_calibrated_form():
    settings = flat_settings(gamma=0.9)
    assert settings == FitSettings(0.9)
    constraint = settings.constraint
    assert settings.inference == Svi()
    assert (constraint.penalty, constraint.inner) == (penalties.mahalanobis(), None)
    assert settings.joint
    assert settings.small_sample
    assert constraint.value_constraint
    assert (constraint.xi, settings.prior) == (0.95, Prior(ratio_sd=10.0, value_sd=10.0))


def test_flat_names_and_objects_are_the_same_settings():
    flat = flat_settings(
        gamma=0.9, penalty="squared", lam=2.0, prior_sd=3.0, action_draws=8, link="softplus"
    )
    assert flat == FitSettings(
        0.9,
        constraint=Constraint(penalty="squared", lam=2.0),
        prior=Prior(ratio_sd=3.0),
        numerics=Numerics(action_draws=8),
        model=linear("softplus"),
    )
    assert (flat.flat["penalty"], flat.flat["lam"], flat.flat["prior_sd"]) == ("squared", 2.0, 3.0)
    assert (flat.flat["action_draws"], flat.flat["link"]) == (8, "softplus")


def test_none_means_the_default():
    assert flat_settings(gamma=0.5, draws=None, xi=None) == flat_settings(gamma=0.5)


def test_preset_paper_is_squared_independent_and_without_reward_noise():
    settings = flat_settings(gamma=0.9, preset="paper")
    constraint = settings.constraint
    assert constraint.penalty == penalties.squared()
    assert not constraint.value_constraint
    assert not settings.joint
    assert not settings.small_sample
    assert (constraint.lam, constraint.epsilon) == (None, None)


def test_preset_agrees_with_what_it_means():
    assert flat_settings(gamma=0.9, preset="paper", joint=False) == flat_settings(
        gamma=0.9, preset="paper"
    )


def test_preset_leaves_open_what_it_says_nothing_of():
    paper = flat_settings(gamma=0.9, preset="paper").constraint
    found = flat_settings(gamma=0.9, preset="paper", lam=2.0, epsilon=0.1, xi=0.9)
    assert found.constraint == replace(paper, lam=2.0, epsilon=0.1, xi=0.9)
    assert not found.joint


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
        flat_settings(gamma=0.9, preset="paper", **conflict)


@pytest.mark.parametrize("form", [{"penalty": "squared"}, {"value_constraint": False}], ids=str)
def test_small_sample_rule_needs_the_value_row_of_sigma(form):
    assert not flat_settings(gamma=0.9, **form).small_sample
    with pytest.raises(SettingsError, match="small_sample=True: expected the Mahalanobis penalty"):
        flat_settings(gamma=0.9, small_sample=True, **form)


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
        ({"cluster": 7}, "cluster"),
        ({"preset": "mine"}, "preset"),
        ({"preset": ["paper"]}, "preset"),
        ({"joint": "no"}, "joint"),
        ({"small_sample": 1}, "small_sample"),
        ({"value_constraint": np.bool_(True)}, "value_constraint"),
        ({"draws": 1}, "draws"),
        ({"draws": 10.0}, "draws"),
        ({"draws": True}, "draws"),
        ({"prior_sd": 0.0}, "prior.ratio_sd"),
        ({"prior_sd": float("inf")}, "prior.ratio_sd"),
        ({"value_prior_sd": -1.0}, "prior.value_sd"),
        ({"lam": "3"}, "lam"),
        ({"epsilon": True}, "epsilon"),
        ({"xi": "0.9"}, "xi"),
        ({"inference": {"steps": 10}}, "inference"),
        ({"inference": Svi(steps=0)}, "svi.steps"),
        ({"inference": Svi(particles=2.5)}, "svi.particles"),
        ({"inference": Svi(learning_rate=0.0)}, "svi.learning_rate"),
        ({"inference": Nuts(warmup=0)}, "nuts.warmup"),
        ({"model": "spline"}, "model"),
        ({"model": 3}, "model"),
        ({"prior": 3.0}, "prior"),
        ({"constraint": "squared"}, "constraint"),
        ({"numerics": {"folds": 3}}, "numerics"),
        ({"folds": 1}, "folds"),
        ({"action_draws": 7}, "action_draws"),
    ],
    ids=str,
)
def test_unusable_settings_are_refused_by_name(options, named):
    with pytest.raises(SettingsError, match=f"^{named}: "):
        flat_settings(**{"gamma": 0.9, **options})


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(
        SettingsError, match=r"settings: expected .*'action_draws', .* found 'lambda'"
    ):
        flat_settings(gamma=0.9, **{"lambda": 3.0})


def test_absorbed_mass_has_no_average_reward():
    with pytest.raises(SettingsError, match=r"absorb.*gamma=1"):
        flat_settings(gamma=1.0, on_termination="absorb")


def test_settings_are_hashable_so_that_compilation_can_depend_on_them():
    assert hash(flat_settings(gamma=0.9)) == hash(flat_settings(gamma=0.9))
