"""States that are not Markov: the move of a value by its posterior, and logs that hide a step."""

import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import gauges
from bayesdice_ppl.fitting.fit import settings_for
from bayesdice_ppl.fitting.history import (
    START,
    Steps,
    likely_move,
    pasts_of,
    steps_of,
    weights_ahead,
)
from bayesdice_ppl.fitting.prepare import prepare_fit
from benchmarks.gauge_cases import CASES
from benchmarks.policy import unseen_part
from benchmarks.promise import mdp

(NOT_MARKOV,) = [case for case in CASES if case.gauge is gauges.PAST]


def test_a_likely_move_is_the_root_mean_square_of_its_posterior():
    rng = np.random.default_rng(0)
    n = 60
    pair, past, unit = rng.integers(2, size=n), rng.integers(1, 4, size=n), np.repeat(range(12), 5)
    error, weight = rng.normal(size=n), rng.normal(size=n)
    steps = Steps(pair, past, unit, np.ones(2), np.ones(2))
    off = np.array([w - weight[pair == p].mean() for w, p in zip(weight, pair, strict=True)])
    seen = off @ error / n
    by_unit = [(off * error)[unit == u].sum() / n for u in range(12)]
    noise = max(np.sum((off * error / n) ** 2), np.sum(np.square(by_unit)))
    prior = 0.3 * sum((off[past == k].sum() / n) ** 2 for k in range(1, 4))

    def density(move):
        return norm.pdf(move, 0.0, np.sqrt(prior)) * norm.pdf(seen, move, np.sqrt(noise))

    reach = 12.0 * np.sqrt(prior)
    whole = quad(density, -reach, reach, epsabs=0.0, epsrel=1e-9)[0]
    square = quad(lambda x: x**2 * density(x), -reach, reach, epsabs=0.0, epsrel=1e-9)[0]
    found = likely_move(error, weight, past, steps, 0.3)
    assert found == pytest.approx(np.sqrt(square / whole), rel=1e-6)
    assert likely_move(error, weight, past, steps, -0.1) == 0.0


def test_weights_go_on_from_the_row_before():
    # Two episodes of two steps, and a row whose past is not known; pair 1 is followed once in two.
    pair = np.array([0, 1, 0, 1, 1])
    before = np.array([START, 2, START, 2, 0])
    steps = Steps(pair, before, np.zeros(5, dtype=int), np.ones(2), np.array([1.5, 0.0]))
    likely = np.array([0.5, 2.0, 0.5, 2.0, 2.0])
    found = weights_ahead(np.full(5, 0.8), steps, likely, entering=0.1, gamma=0.9)
    first, second = 0.1 * 5 / 2 * 0.5, 0.9 * 0.8 * 1.5 * 2.0
    np.testing.assert_allclose(found, [first, second, first, second, 0.0])


def fitted(make, gamma, seed):
    """A world, one of its logs, and its candidates."""
    world = make(np.random.default_rng([seed, 0]))
    frame = world.play(np.random.default_rng([seed, 1]))
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1, 2])
    return world, logs, {str(j): bd.TabularPolicy(t) for j, t in enumerate(world.tables)}


def test_weights_of_the_step_before_mend_the_value_where_rewards_are_a_step_late():
    world, logs, policies = fitted(unseen_part(125, 40, 0.9, "late"), 0.9, 5)
    settings = settings_for(logs, gamma=0.9, inference="exact")
    prepared = prepare_fit(logs, policies, settings, jax.random.key(0), guided=False)
    inputs, pilots = prepared.inputs, prepared.problem.pilots
    steps = steps_of(inputs, prepared.problem)
    assert len(pasts_of(inputs, steps)) == 6
    far = []
    for j in range(3):
        error = inputs.reward + pilots.error[j][inputs.cell_of_row]
        likely = (inputs.candidates.target[j] / steps.share)[steps.pair]
        ratio = pilots.by_pair[j][steps.pair]
        weight = weights_ahead(ratio, steps, likely, float(pilots.start_weight[j]), 0.9)
        off = weight - (np.bincount(steps.pair, weight) / np.bincount(steps.pair))[steps.pair]
        each = np.bincount(steps.unit, off * error) / len(error)
        # The fit's own error comes beside that of the move.
        own = pilots.covariance[j][-1, -1] / len(error)
        off_by = pilots.value[j] - world.truth[j]
        assert abs(off_by + each.sum()) < 4.5 * np.sqrt(own + each @ each)
        far.append(abs(off_by) / np.sqrt(own))
    assert max(far) > 4.5


@pytest.mark.parametrize(
    ("make", "past"),
    [
        (unseen_part(125, 40, 0.9, "late"), "one step before"),
        (unseen_part(125, 40, 0.9, "late 2"), "two steps before"),
        (mdp(125, 40, 0.9), None),
        (mdp(125, 40, 0.9, effect=1.0), None),
    ],
)
def test_a_fit_tells_what_the_state_lacks(make, past):
    _, logs, policies = fitted(make, 0.9, 6)
    belief = bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0), draws=10)
    warnings = json.loads(belief.attrs["support_warnings"])
    found = [w["reason"] for w in warnings if w["name"] == "not Markov"]
    assert len(found) == (0 if past is None else 3)
    assert all(past in reason for reason in found)


def told(frame, policies):
    """Numbers of the gauge by candidate, and the sds of their beliefs."""
    logs = bd.Logs.from_dataframe(frame)
    belief = bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0), draws=400)
    warnings = json.loads(belief.attrs["support_warnings"])
    found = {w["policy"]: w for w in warnings if w["name"] == "not Markov"}
    assert all("one step before" in w["reason"] for w in found.values())
    return found, belief["posterior/value"].std(["chain", "draw"]).to_series()


def test_it_tells_what_does_one_thing_in_one_pair_and_the_opposite_in_another():
    # A step pays 3 more if it repeats the action before: on average over the actions nothing.
    asked = NOT_MARKOV.make(True)
    found, sd = told(asked.frame, asked.policies)
    for name, policy in asked.policies.items():
        chance = np.asarray(policy.probabilities)[0]
        # The first step is taken for one after action 0. The log is uniform, and has 20 steps.
        true = 3.0 * (0.1 * chance[0] + 0.9 * chance @ chance)
        believed = 3.0 * (19 / 20 / 3 + chance[0] / 20)
        assert found[name]["number"] == pytest.approx((true - believed) / sd[name], rel=0.25)


@pytest.mark.parametrize("hidden", [True, False], ids=["velocity hidden", "velocity seen"])
def test_it_tells_of_a_velocity_that_the_state_lacks(hidden):
    # A point on a ring goes on as it went; action 1 turns it around.
    rng = np.random.default_rng(0)
    m, length, size = 100, 30, 7
    place, going, rows = rng.integers(size, size=m), rng.choice([-1, 1], size=m), []
    for t in range(length):
        action = (rng.random(m) < 0.3).astype(int)
        after = np.where(action == 1, -going, going)
        following = (place + after) % size
        state = place if hidden else 2 * place + (going > 0)
        led = following if hidden else 2 * following + (after > 0)
        reward = (place == 0) + 0.5 * rng.normal(size=m)
        rows.append((np.arange(m), np.full(m, t), state, action, reward, led))
        place, going = following, after
    names = ["episode_id", "step", "state", "action", "reward", "next_state"]
    columns = zip(*rows, strict=True)
    frame = pl.DataFrame({n: np.concatenate(c) for n, c in zip(names, columns, strict=True)})
    n_states = size if hidden else 2 * size
    policies = {"turns": bd.TabularPolicy(np.tile([0.1, 0.9], (n_states, 1)))}
    found, _ = told(frame, policies)
    assert set(found) == (set(policies) if hidden else set())
