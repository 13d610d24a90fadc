"""Rows that methods share: made once for each question, the same as made anew, and forgotten."""

import jax
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines import coin_dice, dual_dice, lstdq, marginalized, rows
from bayesdice_ppl.baselines.rows import keep_rows
from tests.linear_world import GAMMA, POLICIES, chain_log

METHODS = (lstdq(), dual_dice(), marginalized(interval="student"), coin_dice())


@pytest.fixture
def made(monkeypatch):
    """Count how often features are gathered."""
    calls = []
    original = rows._feature_rows

    def counted(*args):
        calls.append(args)
        return original(*args)

    monkeypatch.setattr(rows, "_feature_rows", counted)
    return calls


def ask(logs, key, policy="calm", gamma=GAMMA):
    return [m.estimate(logs, POLICIES[policy], gamma=gamma, rng_key=key) for m in METHODS]


def test_shared_rows_give_the_same_answers(made):
    logs, key = chain_log(3, n_episodes=20, n_steps=10), jax.random.key(3)
    alone = ask(logs, key)
    assert len(made) == len(METHODS)
    with keep_rows():
        assert ask(logs, key) == alone
        assert len(made) == len(METHODS) + 1


def test_every_other_question_has_rows_of_its_own(made):
    logs, other = (chain_log(seed, n_episodes=20, n_steps=10) for seed in (3, 4))
    key = jax.random.key(3)
    with keep_rows():
        first = ask(logs, key)
        assert ask(logs, key, policy="pushing") != first
        assert ask(logs, key, gamma=0.5) != first
        assert ask(other, key) != first
        ask(logs, jax.random.key(4))
        assert len(made) == 5
        assert ask(logs, jax.random.key(3)) == first
        assert len(made) == 5


def test_other_features_and_other_terminations_have_rows_of_their_own(made):
    frame = chain_log(3, n_episodes=20, n_steps=10).to_dataframe()
    logs = bd.Logs.from_dataframe(frame.with_columns(terminated=pl.col("step") == 9))
    question = {"gamma": GAMMA, "rng_key": jax.random.key(3)}
    square = lstdq(features=bd.features.polynomial(2))
    with keep_rows():
        found = [
            lstdq().estimate(logs, POLICIES["calm"], **question),
            square.estimate(logs, POLICIES["calm"], **question),
            lstdq().estimate(logs, POLICIES["calm"], on_termination="absorb", **question),
        ]
        assert len(made) == 3
    assert len({each.value for each in found}) == 3


def test_rows_are_forgotten(made):
    logs, key = chain_log(3, n_episodes=20, n_steps=10), jax.random.key(3)
    for _ in range(2):
        with keep_rows():
            ask(logs, key)
    assert len(made) == 2
