"""Settings that a name takes change its answer, and none that it refuses would have.

Of presets of the Lagrangian family only those that every preset leaves open are tried.
"""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.registry import every_name, look_up
from bayesdice_ppl.errors import SettingsError
from tests.linear_world import POLICIES, chain_log
from tests.marks import slow

KEY = jax.random.key(1)
OTHER = {
    "action_draws": 4,
    "batch": 16,
    "cross_fit": False,
    "divergence": "chi_square",
    "draws": 40,
    "dual_regularizer": 0.7,
    "estimator": "lagrangian",
    "features": bd.features.polynomial(degree=1),
    "learning_rate": 0.05,
    "max_weight": 1e6,
    "n_inducing": 5,
    "normalization": True,
    "normalization_slack": 0.5,
    "primal_regularizer": 0.7,
    "prior": 3.0,
    "prior_sd": 0.1,
    "refits": 8,
    "regressions": 1,
    "renormalize": True,
    "resamples": 300,
    "reward": "normal",
    "reward_prior": (3.0, 1.0),
    "reward_range": (-5.0, 7.0),
    "reward_values": (0.0, 2.0),
    "ridge": 3.0,
    "steps": 9,
    "width": 16,
    "zero_reward": True,
    "zeta_positive": True,
}
"""For each setting a value that is nobody's default."""
WITH = {
    "reward_range": {"max_weight": 1e6},
    "reward_prior": {"reward": "beta"},
    "normalization_slack": {"normalization": True},
    # Without it no ratio is negative here.
    "zeta_positive": {"primal_regularizer": 1.0},
}
"""What has to be given with a setting, on either side of the comparison."""
QUICK = {
    "fqe_mlp": {"refits": 4, "steps": 5, "width": 8},
    "bdqn": {"refits": 4, "steps": 5, "width": 8, "draws": 50},
}
ON_VECTORS = {"mwl_kernel"}
OF_VECTORS = {"action_draws", "features"}
"""Settings, as above methods, that are tried on vectors."""
SWITCHES = ("normalization_slack", "ridge", "features", "renormalize")
"""Of presets only these are tried; the others may be what the preset says, or not suit it."""


@pytest.fixture(scope="module")
def questions():
    """A log of labels with pairs that it lacks, and one of vectors, each with a candidate."""
    rng = np.random.default_rng(5)
    rows = []
    for episode in range(8):
        state = int(rng.integers(3))
        for step in range(6):
            action = int(rng.random() < 0.6) if state else 0
            following = int(rng.integers(3))
            reward = float(rng.random() < 0.3 + 0.2 * state)
            chance = 1.0 if state == 0 else 0.6 if action else 0.4
            rows.append((episode, step, state, action, reward, following, step == 5, chance))
            state = following
    names = ["episode_id", "step", "state", "action", "reward", "next_state", "terminated"]
    labels = bd.Logs.from_dataframe(
        pl.DataFrame(rows, schema=[*names, "propensity"], orient="row"), actions=[0, 1]
    )
    table = bd.TabularPolicy([[0.7, 0.3], [0.3, 0.7], [0.6, 0.4]])
    vectors = chain_log(0, n_episodes=12, n_steps=6)
    return {"labels": (labels, table), "vectors": (vectors, POLICIES["damping"])}


def answer(made, question, gamma):
    found = made.estimate(*question, gamma=gamma, rng_key=KEY)
    ends = () if found.lower is None else (found.lower, found.upper)
    return (found.value, *ends)


def asked(name, key, questions):
    vectors = name in ON_VECTORS or key in OF_VECTORS
    gamma = 0.0 if name == "beta" else 0.8
    return questions["vectors" if vectors else "labels"], gamma


CASES = [(name, key) for name in every_name() for key in look_up(name).open]
TAKEN = [
    (name, key)
    for name, key in CASES
    if key in look_up(name).settings
    and (look_up(name).decided.get("preset") is None or key in SWITCHES)
    # Which rewards there can be changes nothing where the log holds both: elsewhere it is an error.
    and key != "reward_values"
]
REFUSED = [(name, key) for name, key in CASES if key not in look_up(name).settings]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        slow(*each) if each[0] in (*QUICK, *ON_VECTORS) and each[1] != "draws" else each
        for each in TAKEN
    ],
)
def test_what_is_taken_changes_the_answer(name, key, questions):
    question, gamma = asked(name, key, questions)
    beside = {**QUICK.get(name, {}), **WITH.get(key, {})}
    before = answer(bd.baselines.make(name, **beside), question, gamma)
    value = (3.0, 1.0) if (name, key) == ("beta", "prior") else OTHER[key]
    after = answer(bd.baselines.make(name, **beside | {key: value}), question, gamma)
    assert before != after


@pytest.mark.parametrize(("name", "key"), REFUSED)
def test_what_is_refused_would_have_changed_nothing(name, key, questions):
    question, gamma = asked(name, key, questions)
    named, quick = look_up(name), QUICK.get(name, {})
    plain = named.entry.maker(**named.decided, **quick)
    given = named.entry.maker(**named.decided, **quick, **{key: OTHER[key]})
    assert answer(plain, question, gamma) == answer(given, question, gamma)
    with pytest.raises(SettingsError, match=f"{key}: has no effect on"):
        bd.baselines.make(name, **{key: OTHER[key]})
