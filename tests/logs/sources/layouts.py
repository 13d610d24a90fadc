"""The episodes of `world` in the layouts of other tools, as their sources and docs define them."""

import json
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa

from tests.logs.sources.world import CHANCES, VECTORS


def flags(one):
    """(terminations, truncations), one a step."""
    last = np.arange(len(one.actions)) == len(one.actions) - 1
    return last & one.terminated, last & (not one.terminated)


def minari_episodes(played):
    """Objects like Minari's EpisodeData."""
    return [
        SimpleNamespace(
            id=k,
            observations=np.array(one.states),
            actions=np.array(one.actions),
            rewards=np.array(one.rewards),
            terminations=flags(one)[0],
            truncations=flags(one)[1],
            infos={},
        )
        for k, one in enumerate(played)
    ]


def minari_metadata(played, kind):
    space = '{"type": "Discrete", "dtype": "int64", "start": 0, "n": %d}'
    return {
        "total_episodes": len(played),
        "total_steps": sum(len(one.actions) for one in played),
        "data_format": kind,
        "observation_space": space % 5,
        "action_space": space % 2,
    }


def save_minari(played, folder, kind="hdf5"):
    """A folder as Minari writes it."""
    data = folder / "data"
    data.mkdir(parents=True)
    (data / "metadata.json").write_text(json.dumps(minari_metadata(played, kind)))
    for k, one in enumerate(minari_episodes(played)):
        held = {
            name: getattr(one, name)
            for name in ("observations", "actions", "rewards", "terminations", "truncations")
        }
        if kind == "hdf5":
            with h5py.File(data / "main_data.hdf5", "a") as file:
                group = file.create_group(f"episode_{k}")
                for name, values in held.items():
                    group.create_dataset(name, data=values)
                group.create_dataset("infos", data=[])
            continue
        # Arrow's columns have one length: all but the observations are filled with a zero.
        filled = {
            name: values if name == "observations" else np.append(values, values.dtype.type(0))
            for name, values in held.items()
        }
        table = pa.table({"episode_id": np.full(len(one.observations), k), **filled})
        (data / str(k)).mkdir()
        path = data / str(k) / "part-0.arrow"
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        (data / str(k) / "metadata.json").write_text(json.dumps({"id": k}))
    return folder


def flat(played, *, following=True):
    """Flat arrays, as D4RL has them."""
    held = {
        "observations": np.concatenate([VECTORS[one.states[:-1]] for one in played]),
        "actions": np.concatenate([one.actions for one in played]),
        "rewards": np.concatenate([one.rewards for one in played]),
        "terminals": np.concatenate([flags(one)[0] for one in played]),
        "timeouts": np.concatenate([flags(one)[1] for one in played]),
    }
    if following:
        held["next_observations"] = np.concatenate([VECTORS[one.states[1:]] for one in played])
    return held


def d3rlpy_episodes(played):
    """Objects like d3rlpy's Episode: no observation after the last action."""
    return [
        SimpleNamespace(
            observations=VECTORS[one.states[:-1]],
            actions=np.array(one.actions)[:, None],
            rewards=np.array(one.rewards, dtype=np.float32)[:, None],
            terminated=one.terminated,
        )
        for one in played
    ]


def save_d3rlpy(played, path):
    """HDF5 as d3rlpy 2 dumps a replay buffer."""
    with h5py.File(path, "w") as file:
        names = ["observations", "actions", "rewards", "terminated"]
        file.create_dataset("columns", data=names)
        file.create_dataset("num_episodes", data=len(played))
        for k, one in enumerate(d3rlpy_episodes(played)):
            for name in names:
                file.create_dataset(f"{name}_{k}", data=getattr(one, name))
        file.create_dataset("version", data="2.1")
    return path


def save_flat(played, path):
    """HDF5 as D4RL has it."""
    with h5py.File(path, "w") as file:
        for name, values in flat(played).items():
            file.create_dataset(name, data=values)
        file.create_group("infos").create_dataset("qpos", data=np.zeros(3))
    return path


def episode_dicts(played):
    return [
        {
            "observations": np.array(one.states),
            "actions": np.array(one.actions),
            "rewards": np.array(one.rewards),
            "terminations": flags(one)[0],
            "truncations": flags(one)[1],
            "action_prob": np.array(one.chances),
        }
        for one in played
    ]


def sample_batches(played, split=3):
    """RLlib's batches: fragments of a few steps, so that an episode spans several."""
    batches = []
    for k, one in enumerate(played):
        n = len(one.actions)
        terminated, truncated = flags(one)
        for start in range(0, n, split):
            part = slice(start, start + split)
            batches.append(
                {
                    "type": "SampleBatch",
                    "eps_id": [1000 + k] * len(one.actions[part]),
                    "t": list(range(n))[part],
                    "agent_index": [0] * len(one.actions[part]),
                    "obs": one.states[:-1][part],
                    "new_obs": one.states[1:][part],
                    "actions": one.actions[part],
                    "rewards": one.rewards[part],
                    "terminateds": terminated[part].tolist(),
                    "truncateds": truncated[part].tolist(),
                    "action_prob": one.chances[part],
                    "action_logp": np.log(one.chances[part]).tolist(),
                    "infos": [{}] * len(one.actions[part]),
                }
            )
    return batches


def replay_buffer(played, *, n_envs=2, size=40, full=False):
    """A buffer like Stable-Baselines3's: environments side by side, episodes one after the other.

    A full one starts in the middle of an episode, and goes on from the front of its arrays.
    """
    streams = []
    for i in range(n_envs):
        rows = [
            (one.states[t], one.actions[t], one.rewards[t], one.states[t + 1], t, one)
            for one in played[i::n_envs]
            for t in range(len(one.actions))
        ]
        streams.append(rows)
    steps = min(map(len, streams))
    held = {name: np.zeros((size, n_envs)) for name in ("rewards", "dones", "timeouts")}
    held |= {
        name: np.zeros((size, n_envs, 1), dtype=int)
        for name in ("observations", "next_observations", "actions")
    }
    for k in range(steps):
        for i in range(n_envs):
            s, a, r, after, t, one = streams[i][k]
            last, at = t == len(one.actions) - 1, (k % size, i)
            held["observations"][at], held["next_observations"][at] = s, after
            held["actions"][at], held["rewards"][at] = a, r
            held["dones"][at] = last
            held["timeouts"][at] = last and not one.terminated
    assert full == (steps >= size)
    return (
        SimpleNamespace(
            **held,
            pos=steps % size,
            full=steps >= size,
            handle_timeout_termination=True,
            observation_space=SimpleNamespace(n=5, start=0),
            action_space=SimpleNamespace(n=2, start=0),
        ),
        streams,
        steps,
    )


def scope_rl(played):
    """SCOPE-RL's dict: trajectories of one length, done and terminal set at the last step."""
    n = [len(one.actions) for one in played]
    assert len(set(n)) == 1
    last = np.tile(np.arange(n[0]) == n[0] - 1, len(played))
    return {
        "size": sum(n),
        "n_trajectories": len(played),
        "step_per_trajectory": n[0],
        "action_type": "discrete",
        "n_actions": 2,
        "action_dim": None,
        "action_keys": None,
        "action_meaning": None,
        "state_dim": 2,
        "state_keys": None,
        "state": np.concatenate([VECTORS[one.states[:-1]] for one in played]),
        "action": np.concatenate([one.actions for one in played]),
        "reward": np.concatenate([one.rewards for one in played]),
        "done": last.astype(float),
        "terminal": last.astype(float),
        "info": {},
        "pscore": np.concatenate([one.chances for one in played]),
        "behavior_policy": "softmax",
        "dataset_id": 0,
    }


def decisions(played):
    """Each step as a decision of Vowpal Wabbit; the logged action stands first in a and p."""
    lines = []
    for one in played:
        for s, a, r in zip(one.states[:-1], one.actions, one.rewards, strict=True):
            chosen, other = a + 1, 2 - a
            lines.append(
                {
                    "_label_cost": -r,
                    "_label_probability": float(np.float32(CHANCES[s, a])),
                    "_label_Action": chosen,
                    "_labelIndex": a,
                    "o": [{"v": r, "EventId": "x", "ActionTaken": False}],
                    "Timestamp": "2021-02-04T16:31:29.2460000Z",
                    "Version": "1",
                    "EventId": "x",
                    "a": [chosen, other],
                    "c": {
                        "User": [{"segment": f"s{s}"}],
                        "_multi": [
                            {"_tag": "left", "i": {"id": 0}},
                            {"_tag": "right", "i": {"id": 1}},
                        ],
                    },
                    "p": [float(CHANCES[s, a]), float(CHANCES[s, 1 - a])],
                    "VWState": {"m": "N/A"},
                }
            )
    return lines


def feedback(played):
    """Each step as a round of OBP's bandit feedback."""
    states = np.concatenate([one.states[:-1] for one in played])
    actions = np.concatenate([one.actions for one in played])
    chances = CHANCES[states]
    return {
        "n_rounds": len(actions),
        "n_actions": 2,
        "context": VECTORS[states],
        "action_context": np.eye(2),
        "action": actions,
        "position": None,
        "reward": np.concatenate([one.rewards for one in played]),
        "expected_reward": np.zeros((len(actions), 2)),
        "pi_b": chances[:, :, None],
        "pscore": chances[np.arange(len(actions)), actions],
    }
