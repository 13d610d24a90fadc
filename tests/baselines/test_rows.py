"""Rows that methods share: made once for each query, and the same as made anew."""

import jax
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines import coin_dice, dual_dice, interface, lstdq, marginalized
from bayesdice_ppl.baselines.interface import Query
from tests.linear_world import GAMMA, POLICIES, chain_log

METHODS = (lstdq(), dual_dice(), marginalized(interval="student"), coin_dice())


@pytest.fixture
def made(monkeypatch):
    """Count how often features are gathered."""
    calls = []
    original = interface.feature_rows

    def counted(*args, **settings):
        calls.append(args)
        return original(*args, **settings)

    monkeypatch.setattr(interface, "feature_rows", counted)
    return calls


def test_methods_that_are_asked_one_query_share_its_rows(made):
    logs, key = chain_log(3, n_episodes=20, n_steps=10), jax.random.key(3)
    alone = [m.estimate(logs, POLICIES["calm"], gamma=GAMMA, rng_key=key) for m in METHODS]
    assert len(made) == len(METHODS)
    query = Query(logs, POLICIES["calm"], GAMMA, key)
    assert [method.ask(query) for method in METHODS] == alone
    assert [method.ask(query) for method in METHODS] == alone
    assert len(made) == len(METHODS) + 1


def test_shared_rows_cannot_be_written():
    logs = chain_log(3, n_episodes=20, n_steps=10)
    rows = Query(logs, POLICIES["calm"], GAMMA, jax.random.key(3)).rows()
    with pytest.raises(ValueError, match="read-only"):
        rows.at_pair[0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        rows.step.reward[0] = 0.0


def test_other_features_have_rows_of_their_own(made):
    logs = chain_log(3, n_episodes=20, n_steps=10)
    query = Query(logs, POLICIES["calm"], GAMMA, jax.random.key(3))
    square = lstdq(features=bd.features.polynomial(2))
    assert lstdq().ask(query) != square.ask(query)
    assert len(made) == 2
    assert lstdq().ask(query) == lstdq().estimate(
        logs, POLICIES["calm"], gamma=GAMMA, rng_key=jax.random.key(3)
    )
