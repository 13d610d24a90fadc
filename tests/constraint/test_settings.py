"""The chance constraint as a user chooses it: what is out of range is refused by name."""

import pytest

from bayesdice_ppl import penalties, surrogates
from bayesdice_ppl.constraint import Constraint, Normalization
from bayesdice_ppl.errors import SettingsError

OUT_OF_RANGE = [
    ({"xi": 0.0}, "xi"),
    ({"xi": 1.0}, "xi"),
    ({"xi": float("nan")}, "xi"),
    ({"lam": 0.0}, "lam"),
    ({"lam": float("inf")}, "lam"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": float("nan")}, "epsilon"),
]


@pytest.mark.parametrize(("options", "named"), OUT_OF_RANGE)
def test_numbers_out_of_range_are_refused_by_name(options, named):
    with pytest.raises(SettingsError, match=f"^{named}: "):
        Constraint(**options)
    with pytest.raises(SettingsError, match=f"^normalization.{named}: "):
        Normalization(**options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"penalty": "cubed"}, "penalty"),
        ({"surrogate": "hoeffding"}, "surrogate"),
        ({"lam": "searched"}, "lam"),
        ({"value_constraint": "no"}, "value_constraint"),
        ({"small_sample": 1}, "small_sample"),
        ({"normalization": 3.0}, "normalization"),
        ({"inner": "outer"}, "inner"),
        ({"small_sample": True, "penalty": "squared"}, "small_sample=True"),
        ({"small_sample": True, "value_constraint": False}, "small_sample=True"),
    ],
)
def test_impossible_choices_are_refused_by_name(options, named):
    with pytest.raises(SettingsError, match=f"^{named}: "):
        Constraint(**options)


def test_choices_are_read_from_their_texts():
    found = Constraint(penalty="huber(0.1)", surrogate="cvar(0.3)", normalization=True)
    assert found.penalty == penalties.huber(0.1)
    assert found.surrogate == surrogates.cvar(0.3)
    assert found.normalization == Normalization()
    assert Constraint(normalization=False).normalization is None
    same = Constraint(
        penalty=penalties.huber(0.1), surrogate=surrogates.cvar(0.3), normalization=Normalization()
    )
    assert found == same
    assert hash(found) == hash(same)


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({}, None),
        ({"penalty": "squared", "value_constraint": False}, None),
        ({"penalty": "power(4)"}, "the penalty power(4)"),
        ({"surrogate": "cvar"}, "the surrogate cvar"),
    ],
)
def test_what_keeps_a_posterior_from_its_closed_form(options, missing):
    assert Constraint(**options).closed_form_missing() == missing


def test_only_the_mahalanobis_penalty_with_the_value_constraint_is_calibrated():
    assert Constraint().calibrated
    assert not Constraint(penalty="squared").calibrated
    assert not Constraint(value_constraint=False).calibrated
    assert Constraint(lam="search").searched
    assert not Constraint(lam=2.0).searched
