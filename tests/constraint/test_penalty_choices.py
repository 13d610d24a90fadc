"""Penalties as a user chooses them."""

import jax
import jax.numpy as jnp
import pytest

from bayesdice_ppl import penalties
from bayesdice_ppl.constraint.penalties import (
    Huber,
    Mahalanobis,
    Power,
    Squared,
    penalty_choice,
)
from bayesdice_ppl.errors import SettingsError


@pytest.mark.parametrize(
    ("choice", "text", "kind", "quadratic"),
    [
        (penalties.squared(), "squared", Squared, True),
        (penalties.mahalanobis(), "mahalanobis", Mahalanobis, True),
        (penalties.power(1.5), "power(1.5)", Power, False),
        (penalties.huber(0.02), "huber(0.02)", Huber, False),
    ],
)
def test_a_choice_is_its_text_and_makes_its_penalty(choice, text, kind, quadratic):
    assert str(choice) == text
    assert penalty_choice(text) == choice
    assert penalty_choice(choice) is choice
    assert hash(penalty_choice(text)) == hash(choice)
    assert choice.quadratic is quadratic
    with jax.enable_x64(True):
        made = choice.build(jnp.eye(3), jnp.ones(3))
        assert isinstance(made, kind)
        assert float(made.value(jnp.zeros(3))) == 0.0


@pytest.mark.parametrize(
    "text", ["cubed", "power", "power(1)", "power(inf)", "huber(0)", "huber(x)", "squared(2)", None]
)
def test_what_is_no_penalty_is_refused(text):
    with pytest.raises(SettingsError, match="penalty"):
        penalty_choice(text)


@pytest.mark.parametrize("make", [penalties.power, penalties.huber])
@pytest.mark.parametrize("number", [-1.0, float("nan"), True])
def test_impossible_numbers(make, number):
    with pytest.raises(SettingsError, match="expected a number above"):
        make(number)
