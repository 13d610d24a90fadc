"""Far: truths by linear algebra against play, counts against rows, and a cell of its table."""

import numpy as np
import pytest

import bayesdice_ppl as bd
from benchmarks import far
from benchmarks.far import ACTIONS, STATES, Kind, as_logs, count, find_truth, make_world, play

ABSORB = Kind("absorb", 0.8, 0, "absorb", termination=0.1, n_episodes=40)
CUT = Kind("cut", 1.0, 60, termination=0.1)


@pytest.mark.parametrize("kind", [ABSORB, CUT._replace(n=2_000)], ids=["absorb", "average"])
def test_the_truth_is_what_the_target_earns(kind):
    world = make_world(kind, 3)
    truth = find_truth(world, kind)
    assert truth.share.sum() <= 1.0 + 1e-12
    played = play(world._replace(behavior=world.target), kind, 200, np.random.default_rng(0))
    if kind.gamma == 1.0:
        earned = played.reward.mean(axis=1)
        # It starts from the first states, and forgets them in some ten steps of 2,000.
        slack = 10.0 / 2_000
    else:
        # Steps since the start of the episode, which a termination ends for good.
        rows = np.arange(played.state.shape[1])
        since = rows - np.maximum.accumulate(np.where(played.first, rows, 0), axis=1)
        weight = (1.0 - kind.gamma) * kind.gamma**since * played.logged
        earned, slack = (weight * played.reward).sum(axis=1) / kind.n_episodes, 0.0
    error = earned.std() / np.sqrt(len(earned))
    assert abs(earned.mean() - truth.value) < 5.0 * error + slack


def test_counts_are_those_of_the_rows_that_fit_reads():
    for kind in (ABSORB, CUT):
        world = make_world(kind, 1)
        played = play(world, kind, 3, np.random.default_rng(1))
        cells = count(played)
        for i in range(3):
            logs = as_logs(played, i)
            assert logs.n_transitions == cells.n_transitions[i] == cells.count[i].sum()
            assert logs.n_episodes == cells.n_episodes[i]
            assert cells.reward_sum[i].sum() == pytest.approx(logs.reward.sum())
            pairs = cells.count[i].reshape(STATES * ACTIONS, STATES + 1)
            assert pairs[:, STATES].sum() == logs.terminated.sum()
            np.testing.assert_allclose(cells.initial_weight[i].sum(), 1.0)


def test_beliefs_are_those_of_fit():
    world = make_world(ABSORB, 2)
    played = play(world, ABSORB, 2, np.random.default_rng(2))
    found = far.beliefs(count(played), world, ABSORB)["default"]
    belief = bd.fit(
        as_logs(played, 1),
        {"target": bd.TabularPolicy(world.target)},
        gamma=ABSORB.gamma,
        on_termination="absorb",
        cluster="transition",
        prior=bd.Prior(unseen="moved"),
        rng_key=far.jax.random.key(0),
        draws=2,
    )["constant_data"]
    assert found["mean"][1] == pytest.approx(belief["guide_mean"].item(), abs=1e-9)
    assert found["sd"][1] == pytest.approx(belief["guide_sd"].item(), rel=1e-6)


@pytest.mark.slow
def test_a_log_of_thousands_of_visits_is_as_wide_as_the_formula_says():
    kind = CUT._replace(n=20_000, target=5.0, behavior=5.0)
    world = make_world(kind, 0)
    played = play(world, kind, 2, np.random.default_rng(3))
    cells = count(played)
    visits = cells.count[0].reshape(STATES, ACTIONS, STATES + 1).sum(axis=2)
    formula = find_truth(world, kind).sd(visits, cells.n_episodes[0])
    found = far.beliefs(cells, world, kind)["default"]
    # The believed sd has a relative error of about 1 / sqrt(2 n).
    assert found["sd"][0] == pytest.approx(formula, rel=0.03)
