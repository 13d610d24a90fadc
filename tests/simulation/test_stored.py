"""Stored values of Reacher: complete, sure enough, and the same by another way."""

import csv
import math
from importlib.resources import files
from itertools import pairwise

import jax
import pytest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.simulation import known_values, make_world, stored_value, true_value

ALPHAS = (0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95)
ROWS = list(
    csv.DictReader(
        files("bayesdice_ppl.simulation")
        .joinpath("values/reacher.csv")
        .read_text(encoding="utf-8")
        .splitlines()
    )
)


@pytest.mark.parametrize("gamma", [0.99, 1.0])
def test_every_policy_of_the_papers_has_a_sure_value(gamma):
    values = [stored_value("reacher", alpha, gamma) for alpha in ALPHAS]
    assert all(0 < value.standard_error <= 0.001 for value in values)
    assert all(value.left_out <= 1e-4 for value in values)
    assert not any(value.exact for value in values)
    # Less noise is better.
    assert all(one < other for one, other in pairwise(values))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['alpha']}-{row['gamma']}")
def test_the_game_without_restarts_is_worth_the_same_at_a_smaller_discount(row):
    """Restarts come with probability p whatever happens: value(gamma) = plain(gamma (1 - p))."""
    error = math.hypot(float(row["standard_error"]), float(row["plain_standard_error"]))
    assert abs(float(row["value"]) - float(row["plain_value"])) < 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.95])
def test_values_are_found_again(alpha):
    stored = stored_value("reacher", alpha, 0.99)
    found = true_value(
        envs.InfiniteReacher(),
        envs.reacher_policy(alpha),
        0.99,
        rng_key=jax.random.key(77),
        n_episodes=200,
    )
    assert abs(found - stored) < 5 * math.hypot(found.standard_error, stored.standard_error)


def test_what_is_not_stored():
    assert stored_value("reacher", 0.123, 0.99) is None
    with pytest.raises(SettingsError, match="expected one of reacher, found"):
        stored_value("pong", 0.5, 0.99)


def test_reachers_known_values_are_those_that_are_stored():
    key = jax.random.key(0)
    known = known_values(make_world("reacher", alpha=0.5, candidates=[0.1, 0.9]), rng_key=key)
    assert list(known) == ["(logging policy)", "alpha_0.90"]
    assert known["alpha_0.90"] == stored_value("reacher", 0.9, 0.99)
    # Another probability of restarting is another world.
    assert known_values(make_world("reacher", restart_probability=0.1), rng_key=key) == {}
