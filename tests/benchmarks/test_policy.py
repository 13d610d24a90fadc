"""The benchmark of logging policies and hidden states: its truths by playing its worlds."""

import numpy as np
import pytest

from benchmarks import policy
from benchmarks.promise import draw


def parts(world):
    """The pieces of a world, from the closure of what plays it."""
    names = world.play.__code__.co_freevars
    return {n: c.cell_contents for n, c in zip(names, world.play.__closure__, strict=True)}


@pytest.mark.parametrize("what", ["late", "late 2", "alias", "mood", "type"])
def test_truths_of_worlds_that_hide_something_are_what_playing_them_earns(what):
    world = policy.unseen_part(2, 2, 0.7, what)(np.random.default_rng(0))
    rng, n, own = np.random.default_rng(1), 2_500, parts(world)
    for table, truth in zip(world.tables, world.truth, strict=True):
        state, total = draw(rng, np.broadcast_to(own["first"], (n, own["full"]))), np.zeros(n)
        lag = {"late": 1, "late 2": 2}.get(what, 0)
        for step in range(30):
            action = draw(rng, table[own["shown"][state]])
            total += 0.3 * 0.7 ** (step + lag) * own["pays"][state, action]
            state = draw(rng, own["chain"][state, action])
        assert abs(total.mean() - truth) < 4.5 * total.std() / np.sqrt(n) + 0.7**30 * 5.0


@pytest.mark.parametrize(
    ("policies", "options"),
    [("one", {}), ("days", {"drift": 1.0}), ("slow", {"drift": 2.0}), ("mixed", {"hidden": 1.0})],
)
def test_truths_of_contexts_are_means_over_the_log(policies, options):
    make = policy.contexts(40_000, 2, 2, told="right", policies=policies, **options)
    world = make(np.random.default_rng(2))
    log = world.play(np.random.default_rng(3))
    state, action = log["state"].to_numpy(), log["action"].to_numpy()
    for table, truth in zip(world.tables, world.truth, strict=True):
        # Right propensities make importance sampling unbiased, whatever moved them.
        weighed = table[state, action] / log["propensity"].to_numpy() * log["reward"].to_numpy()
        assert abs(weighed.mean() - truth) < 4.5 * weighed.std() / np.sqrt(len(weighed))


def test_every_kind_plays_and_has_a_name_of_its_own():
    names = [kind.name for kind in policy.OWN_KINDS]
    assert len(set(names)) == len(names)
    for number, kind in enumerate(policy.OWN_KINDS):
        world = kind.make(np.random.default_rng([100 + number, 0, 0]))
        frame = world.play(np.random.default_rng([100 + number, 1, 0]))
        assert {"state", "action", "reward"} <= set(frame.columns)
        assert np.isfinite(world.truth).all()
