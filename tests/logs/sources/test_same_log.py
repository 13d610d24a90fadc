"""The same episodes in the layout of each tool and as our own log: the same arrays and beliefs."""

import json
from dataclasses import replace

import jax
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import Logs, read_logs
from tests.logs.sources import layouts
from tests.logs.sources.world import STEPS, VECTORS, differences, own_log, own_rows, play

PLAYED = play()
FIXED = play(seed=3, stop=0.0)
LABELS = bd.Policies(
    {
        "left": {s: {0: 0.8, 1: 0.2} for s in range(5)},
        "right": {s: {0: 0.1, 1: 0.9} for s in range(5)},
    }
)
FUNCTIONS = bd.Policies(
    {
        "left": lambda seen: np.tile([0.8, 0.2], (len(seen), 1)),
        "right": lambda seen: np.tile([0.1, 0.9], (len(seen), 1)),
    }
)


def written(tmp_path, name, lines):
    path = tmp_path / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def from_npz(tmp_path, arrays):
    np.savez(tmp_path / "log.npz", **arrays)
    return read_logs(tmp_path / "log.npz")


def renumbered(logs):
    """RLlib's episodes are 1000, 1001, ...; ours count from 0."""
    return replace(logs, episode_labels=logs.episode_labels - 1000)


def episode_rows(played):
    """A row for each episode, as Hugging Face's decision-transformer datasets have it."""
    names = {
        "observations": lambda one: one.states,
        "actions": lambda one: one.actions,
        "rewards": lambda one: one.rewards,
        "terminations": lambda one: layouts.flags(one)[0].tolist(),
        "truncations": lambda one: layouts.flags(one)[1].tolist(),
    }
    return pl.DataFrame({name: [make(one) for one in played] for name, make in names.items()})


def rllib_columns(played):
    """The rows of all batches as one table."""
    batches = layouts.sample_batches(played)
    names = [name for name in batches[0] if name not in ("type", "infos")]
    return pl.DataFrame({name: [v for one in batches for v in one[name]] for name in names})


def parquet(tmp_path, frame):
    pq.write_table(frame.to_arrow(), tmp_path / "log.parquet")
    return read_logs(tmp_path / "log.parquet")


def minari_saved(tmp_path, kind):
    return read_logs(layouts.save_minari(PLAYED, tmp_path / "lake" / "a-v0", kind))


TABULAR = {
    "Stable-Baselines3's buffer": lambda tmp: Logs.from_sb3(
        layouts.replay_buffer(PLAYED, n_envs=1, size=60)[0]
    ),
    "Minari's objects": lambda tmp: Logs.from_minari(layouts.minari_episodes(PLAYED)),
    "Minari saved as HDF5": lambda tmp: minari_saved(tmp, "hdf5"),
    "Minari saved as Arrow": lambda tmp: minari_saved(tmp, "arrow"),
    "episode dicts": lambda tmp: Logs.from_episodes(layouts.episode_dicts(PLAYED)),
    "RLlib's batches": lambda tmp: renumbered(Logs.from_rllib(layouts.sample_batches(PLAYED))),
    "RLlib's JSON": lambda tmp: renumbered(
        read_logs(written(tmp, "output-1.json", layouts.sample_batches(PLAYED)))
    ),
    "RLlib's columns": lambda tmp: renumbered(parquet(tmp, rllib_columns(PLAYED))),
    "a row an episode": lambda tmp: Logs.from_hugging_face(episode_rows(PLAYED)),
    "a row an episode in Parquet": lambda tmp: parquet(tmp, episode_rows(PLAYED)),
}
WITH_PROPENSITY = ("episode dicts", "RLlib's batches", "RLlib's JSON", "RLlib's columns")

VECTOR = {
    "D4RL's arrays": lambda tmp: Logs.from_d4rl(layouts.flat(PLAYED)),
    "D4RL's HDF5": lambda tmp: read_logs(layouts.save_flat(PLAYED, tmp / "hopper.hdf5")),
    "D4RL's arrays in .npz": lambda tmp: from_npz(tmp, layouts.flat(PLAYED)),
}
LAST_UNKNOWN = {
    "D4RL without next observations": lambda tmp: Logs.from_d4rl(
        layouts.flat(PLAYED, following=False)
    ),
    "d3rlpy's episodes": lambda tmp: Logs.from_d3rlpy(layouts.d3rlpy_episodes(PLAYED)),
    "d3rlpy's HDF5": lambda tmp: read_logs(layouts.save_d3rlpy(PLAYED, tmp / "log.h5")),
    "d3rlpy's flat arrays": lambda tmp: Logs.from_d3rlpy(layouts.flat(PLAYED, following=False)),
}


@pytest.mark.parametrize("name", TABULAR)
def test_labels_are_the_same_log(name, tmp_path):
    declared = [0, 1] if "saved" in name or "buffer" in name else None
    own = own_log(PLAYED, propensity=name in WITH_PROPENSITY, actions=declared)
    found = TABULAR[name](tmp_path)
    assert differences(found, own) == []
    assert found.source is not None
    assert found.source.sentences[0].startswith("Read as ")


@pytest.mark.parametrize("name", VECTOR)
def test_vectors_are_the_same_log(name, tmp_path):
    assert differences(VECTOR[name](tmp_path), own_log(PLAYED, vectors=True)) == []


@pytest.mark.parametrize("name", LAST_UNKNOWN)
def test_what_followed_a_cut_is_not_known_where_the_tool_does_not_keep_it(name, tmp_path):
    found = LAST_UNKNOWN[name](tmp_path)
    ours = own_log(PLAYED, vectors=True, last_known=False)
    # Our rows say where a terminated episode led to no more than the tool does.
    assert differences(found, ours) == []
    assert found.next_state[found.truncated].tolist() == [-1] * int(found.truncated.sum())
    assert "led" in found.source.sentences[-1]


@pytest.mark.parametrize("saved", [False, True], ids=["dict", "npz"])
def test_scope_rl_is_the_same_log(saved, tmp_path):
    dataset = layouts.scope_rl(FIXED)
    if saved:
        plain = {k: v for k, v in dataset.items() if isinstance(v, np.ndarray | int)}
        found = from_npz(tmp_path, plain)
    else:
        found = Logs.from_scope_rl(dataset)
    own = own_log(FIXED, vectors=True, last_known=False, propensity=True, actions=[0, 1])
    assert differences(found, own) == []
    ended = Logs.from_scope_rl(dataset, columns={"terminated": "done"})
    assert ended.terminated.sum() == len(FIXED)
    assert (ended.terminated == found.truncated).all()
    assert len(found.reward) == STEPS * len(FIXED)


def bandit_rows():
    return pl.DataFrame(own_rows(PLAYED, propensity=True)).drop(
        "episode_id", "step", "next_state", "terminated", "truncated"
    )


def own_decisions():
    """Each step as a row of its own, as labels."""
    rows = bandit_rows().with_columns(
        pl.format("s{}", "state").alias("state"),
        pl.col("action").replace_strict({0: "left", 1: "right"}),
    )
    return Logs.from_dataframe(rows, actions=["left", "right"])


def own_rounds():
    """Each step as a row of its own, as vectors."""
    rows = bandit_rows()
    seen = pl.Series("obs", VECTORS[rows["state"].to_numpy()]).cast(pl.List(pl.Float64))
    return Logs.from_dataframe(rows.with_columns(seen).drop("state"), actions=[0, 1])


@pytest.mark.parametrize("saved", [False, True], ids=["lines", "file"])
def test_decisions_of_vowpal_wabbit_are_the_same_log(saved, tmp_path):
    lines = layouts.decisions(PLAYED)
    found = read_logs(written(tmp_path, "x.dsjson", lines)) if saved else Logs.from_vw(lines)
    assert differences(found, own_decisions()) == []


@pytest.mark.parametrize("saved", [False, True], ids=["dict", "npz"])
def test_feedback_of_obp_is_the_same_log(saved, tmp_path):
    given = layouts.feedback(PLAYED)
    found = from_npz(tmp_path, given) if saved else Logs.from_obp(given)
    assert differences(found, own_rounds()) == []


def values(logs, policies, gamma):
    belief = bd.fit(logs, policies, gamma=gamma, rng_key=jax.random.key(0), draws=200)
    return belief["posterior"]["value"].to_numpy()


@pytest.fixture(scope="module")
def own_values():
    """The belief of our own log, by what it holds, fitted once."""
    made = {
        (False, 0.9): lambda: (own_log(PLAYED), LABELS),
        (True, 0.9): lambda: (own_log(PLAYED, propensity=True), LABELS),
    }
    return {key: values(*make(), 0.9) for key, make in made.items()}


@pytest.mark.parametrize("name", TABULAR)
def test_beliefs_on_labels_are_the_same_to_the_last_bit(name, tmp_path, own_values):
    found = values(TABULAR[name](tmp_path), LABELS, 0.9)
    assert np.array_equal(found, own_values[name in WITH_PROPENSITY, 0.9])
    assert np.ptp(found) > 0.0


def test_the_belief_on_decisions_is_the_same_to_the_last_bit():
    named = {f"s{s}": {"left": 0.8, "right": 0.2} for s in range(5)}
    policies = bd.Policies({"one": named, "other": {s: {"right": 1.0} for s in named}})
    found = values(Logs.from_vw(layouts.decisions(PLAYED)), policies, 0.0)
    assert np.array_equal(found, values(own_decisions(), policies, 0.0))


@pytest.mark.slow
def test_the_belief_on_rounds_is_the_same_to_the_last_bit():
    found = values(Logs.from_obp(layouts.feedback(PLAYED)), FUNCTIONS, 0.0)
    assert np.array_equal(found, values(own_rounds(), FUNCTIONS, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTOR)
def test_beliefs_on_vectors_are_the_same_to_the_last_bit(name, tmp_path):
    own = own_log(PLAYED, vectors=True, actions=[0, 1])
    found = replace(VECTOR[name](tmp_path), declared_actions=np.arange(2))
    assert np.array_equal(values(found, FUNCTIONS, 0.9), values(own, FUNCTIONS, 0.9))


@pytest.mark.slow
def test_the_belief_on_scope_rl_is_the_same_to_the_last_bit():
    own = own_log(FIXED, vectors=True, last_known=False, propensity=True, actions=[0, 1])
    found = Logs.from_scope_rl(layouts.scope_rl(FIXED))
    assert np.array_equal(values(found, FUNCTIONS, 0.9), values(own, FUNCTIONS, 0.9))


@pytest.mark.slow
@pytest.mark.parametrize("name", LAST_UNKNOWN)
def test_beliefs_where_a_cut_leads_nowhere_are_the_same_to_the_last_bit(name, tmp_path):
    own = own_log(PLAYED, vectors=True, last_known=False, actions=[0, 1])
    found = replace(LAST_UNKNOWN[name](tmp_path), declared_actions=np.arange(2))
    assert np.array_equal(values(found, FUNCTIONS, 0.9), values(own, FUNCTIONS, 0.9))
