"""Worlds by name, as the command line makes them."""

import subprocess
import sys

import numpy as np
import pytest

from bayesdice_ppl.errors import EnvironmentSpecError, SettingsError
from bayesdice_ppl.simulation import make_world, true_value


@pytest.mark.parametrize(
    ("name", "gamma"),
    [
        ("bandit", 0.0),
        ("contextualbandit", 0.0),
        ("frozenlake", 0.99),
        ("garnet", 0.95),
        ("riverswim", 0.99),
        ("taxi", 0.99),
    ],
)
def test_candidates_are_ordered_by_alpha(name, gamma):
    world = make_world(name)
    assert world.gamma_hint == gamma
    assert list(world.candidates) == [
        f"alpha_{alpha}" for alpha in ("0.75", "0.80", "0.85", "0.90", "0.95")
    ]
    values = [true_value(world.env, policy, gamma) for policy in world.candidates.values()]
    assert np.all(np.diff(values) > 0)
    assert true_value(world.env, world.behavior, gamma) < values[0]


def test_options_reach_the_world():
    world = make_world("bandit", alpha=0.5, candidates=[0.125, 1], arms=(0.1, 0.2, 0.9))
    np.testing.assert_allclose(world.behavior.probabilities, [[0.25, 0.25, 0.5]])
    assert list(world.candidates) == ["alpha_0.125", "alpha_1.00"]
    assert make_world("frozenlake", map_name="8x8").behavior.probabilities.shape == (64, 4)
    assert make_world("riverswim", n_states=9).behavior.probabilities.shape == (9, 2)
    warm, cool = (make_world("taxi", alpha=1, temperature=t).behavior for t in (2.0, 0.5))
    assert np.max(warm.probabilities) < np.max(cool.probabilities)
    assert make_world("taxi", is_rainy=True).env.transition_matrix[22, 0].max() == pytest.approx(
        0.8
    )
    assert make_world("reacher", restart_probability=0.1).env.probability == 0.1


def test_a_garnet_is_its_world_seed_and_never_ends():
    one, same = (make_world("garnet", world_seed=3, n_states=6, termination=0.2) for _ in range(2))
    other = make_world("garnet", world_seed=4, n_states=6, termination=0.2)
    np.testing.assert_array_equal(one.env.transition_matrix, same.env.transition_matrix)
    np.testing.assert_array_equal(one.behavior.probabilities, same.behavior.probabilities)
    assert not np.allclose(one.env.transition_matrix, other.env.transition_matrix)
    assert not one.env.outcomes.terminated.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "pond"}, "expected one of bandit, cartpole, .*, taxi, found 'pond'"),
        ({"name": "bandit", "map_name": "4x4"}, "no option 'map_name'; its options are arms"),
        ({"name": "cartpole", "arms": (0.1,)}, "no option 'arms'; its options are none"),
        ({"name": "bandit", "candidates": []}, "candidates"),
        ({"name": "bandit", "candidates": [0.5, 0.5]}, "different alphas"),
    ],
)
def test_what_is_unknown_is_refused(arguments, message):
    with pytest.raises(SettingsError, match=message):
        make_world(**arguments)


def test_alpha_out_of_range_is_refused():
    with pytest.raises(EnvironmentSpecError, match="alpha"):
        make_world("frozenlake", alpha=2)


def test_exact_values_need_no_jax_and_import_alone_neither_gymnasium():
    program = (
        "import sys, bayesdice_ppl.simulation as s; "
        "assert not {'jax', 'gymnasium'} & set(sys.modules); "
        "w = s.make_world('bandit'); s.true_value(w.env, w.behavior, 0.5); "
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
