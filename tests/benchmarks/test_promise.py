"""The benchmark of the promise: its truths by simulation, and what it makes of a few logs."""

import numpy as np
import pytest

from bayesdice_ppl.fitting.gauges import GAUGES
from benchmarks import promise


def discounted(world, gamma, ends, table, rng, n=20_000, steps=60):
    """Value of one table by playing it; the world's parts come from its closure."""
    cells = dict(zip(world.play.__code__.co_freevars, world.play.__closure__, strict=True))
    move, mean = (cells[name].cell_contents for name in ("move", "mean"))
    state, alive, total = rng.integers(10, size=n), np.ones(n, dtype=bool), np.zeros(n)
    for step in range(steps):
        action = promise.draw(rng, table[state])
        total += alive * (1.0 - gamma) * gamma**step * mean[state, action]
        state = promise.draw(rng, move[state, action])
        alive &= rng.random(n) >= ends
    return total.mean(), total.std() / np.sqrt(n)


@pytest.mark.parametrize("ends", [0.0, 0.08])
def test_truths_of_an_mdp_are_what_playing_it_earns(ends):
    world = promise.mdp(2, 2, 0.8, ends=ends)(np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for table, truth in zip(world.tables, world.truth, strict=True):
        earned, error = discounted(world, 0.8, ends, table, rng)
        assert abs(earned - truth) < 4.5 * error + 0.8**60 * 3.0


def test_a_log_of_every_kind_can_be_played_and_its_rewards_have_their_means():
    for number, kind in enumerate(promise.KINDS):
        world = kind.make(np.random.default_rng([number, 0, 0]))
        frame = world.play(np.random.default_rng([number, 1, 0]))
        assert {"state", "action", "reward"} <= set(frame.columns)
        assert np.isfinite(world.truth).all()
        assert len(world.tables) == len(world.truth) == 3


def test_a_few_logs_of_a_healthy_kind():
    number = [kind.name for kind in promise.KINDS].index("MDP, gamma 0.9, n 200")
    row, spoken = promise.measure(number, promise.KINDS[number], 8)
    assert 0.0 <= row["cov_90"] <= 1.0
    assert set(spoken) <= {gauge.name for gauge in GAUGES}
    rows = promise.gauge_rows([{**row, "all_mace": 0.1}, row], [{"lost mass": 0.5}, spoken])
    assert [each["gauge"] for each in rows] == [gauge.name for gauge in GAUGES]
    lost = next(each for each in rows if each["gauge"] == "lost mass")
    assert lost["missing"] == 0.5
    assert lost["most in"] == row["kind"]
