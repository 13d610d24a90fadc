"""Rows that follow each other as steps do, without a column that names the episodes."""

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs import usable_rows


def steps(seed, *, n=200, n_states=6, length=20, vectors=False):
    """A walk cut into episodes, each row with its next state."""
    rng = np.random.default_rng(seed)
    state, rows = int(rng.integers(n_states)), []
    for row in range(n):
        following = int(rng.integers(n_states))
        rows.append((state, int(rng.integers(2)), following, (row + 1) % length == 0))
        state = int(rng.integers(n_states)) if rows[-1][3] else following
    before, action, after, ended = zip(*rows, strict=True)
    reward = rng.normal(size=n)
    frame = {"action": action, "reward": reward, "terminated": ended}
    if vectors:
        places = rng.normal(size=(n_states, 2))
        frame |= {"obs": places[list(before)].tolist(), "next_obs": places[list(after)].tolist()}
    else:
        frame |= {"state": before, "next_state": after}
    return pl.DataFrame(frame)


@pytest.mark.parametrize("vectors", [False, True])
def test_a_chain_of_rows_needs_its_episodes_named(vectors):
    frame = steps(0, vectors=vectors)
    logs = Logs.from_dataframe(frame)
    with pytest.raises(LogsError, match=r"expected a column episode_id, since gamma = 0.9: 100%"):
        usable_rows(logs, 0.9)
    assert usable_rows(logs, 0.0).mask.all()
    ends = frame["terminated"].cast(pl.Int64).shift(1, fill_value=0).cum_sum()
    assert usable_rows(Logs.from_dataframe(frame.with_columns(episode_id=ends)), 0.9).mask.all()
    alone = frame.with_row_index("episode_id")
    assert usable_rows(Logs.from_dataframe(alone), 0.9).mask.all()


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_stand_alone_are_no_chain(seed):
    """Shuffled, so that a row leads to the state of the next by chance, even in two states."""
    n_states = (2, 3, 6)[seed % 3]
    frame = steps(seed, n_states=n_states).sample(fraction=1.0, shuffle=True, seed=seed)
    assert usable_rows(Logs.from_dataframe(frame), 0.9).mask.all()


def test_a_few_rows_are_not_judged():
    frame = steps(1, n=15)
    assert usable_rows(Logs.from_dataframe(frame), 0.9).mask.all()
