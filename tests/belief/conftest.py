"""One fitted belief that every test of this folder looks at."""

import jax
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.inference import Svi

NAMES = ["gut", "größer", "третий"]


@pytest.fixture(scope="session")
def key():
    return jax.random.key(4)


@pytest.fixture(scope="session")
def belief(plain, key):
    pulls = [(0, 1.0)] * 8 + [(0, 0.0)] * 5 + [(1, 1.0)] * 3 + [(1, 0.0)] * 9
    tables = ([[0.9, 0.1]], [[0.4, 0.6]], [[0.0, 1.0]])
    policies = {name: bd.TabularPolicy(t) for name, t in zip(NAMES, tables, strict=True)}
    return bd.fit(
        plain.bandit(pulls),
        policies,
        gamma=0.0,
        rng_key=key,
        draws=500,
        inference=Svi(steps=300),
    )
