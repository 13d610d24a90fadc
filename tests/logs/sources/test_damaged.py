"""Damaged input of every layout: a sentence of ours or a log, and never anything else."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bayesdice_ppl import Logs, read_logs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources import layouts as readers
from tests.logs.sources import layouts
from tests.logs.sources.world import play
from tests.marks import every_fifth

PLAYED = play()
FIXED = play(seed=3, stop=0.0)
POSITIONS = {"position": np.arange(48) % 3, "pi_b": None}

DAMAGES = {
    "cut off": lambda a: a[:-1],
    "empty": lambda a: a[:0],
    "nothing": lambda a: None,
    "a number": lambda a: np.array(5),
    "a text": lambda a: "text",
    "nothing a step": lambda a: [None] * len(a),
    "objects": lambda a: a.astype(object),
    "NaN": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, np.inf),
    "an axis more": lambda a: np.stack([a] * 3, axis=-1),
    "a dict": lambda a: {"a": a},
    "a tuple": lambda a: (a, a),
    "ragged": lambda a: [[1], [2, 3]],
    "texts": lambda a: a.astype(str),
    "complex": lambda a: np.full(a.shape, 1.0 + 2.0j),
}


def replaced(held, index, damage):
    """A list of episodes of which one is damaged."""
    return [damage if k == index else one for k, one in enumerate(held)]


def message(read, given):
    """What is wrong, in our words; empty if it is read. Anything else is a failure."""
    try:
        read(given)
    except LogsError as error:
        return str(error)
    return ""


def arrays_of(held):
    return {key: value for key, value in held.items() if isinstance(value, np.ndarray | int)}


def namespaces(made, read):
    return (vars(made[3]), lambda held: read(replaced(made, 3, SimpleNamespace(**held))))


def dicts(made, read):
    return (made[3], lambda held: read(replaced(made, 3, held)))


SOURCES = {
    "D4RL": lambda: (layouts.flat(PLAYED), Logs.from_d4rl),
    "SCOPE-RL": lambda: (arrays_of(layouts.scope_rl(FIXED)), Logs.from_scope_rl),
    "OBP": lambda: (layouts.feedback(PLAYED), Logs.from_obp),
    "OBP with positions": lambda: (layouts.feedback(PLAYED) | POSITIONS, Logs.from_obp),
    "episodes": lambda: dicts(layouts.episode_dicts(PLAYED), Logs.from_episodes),
    "RLlib": lambda: dicts(layouts.sample_batches(PLAYED), Logs.from_rllib),
    "Vowpal Wabbit": lambda: dicts(layouts.decisions(PLAYED), Logs.from_vw),
    "Minari": lambda: namespaces(layouts.minari_episodes(PLAYED), Logs.from_minari),
    "d3rlpy": lambda: namespaces(layouts.d3rlpy_episodes(PLAYED), Logs.from_d3rlpy),
    "Stable-Baselines3": lambda: (
        vars(layouts.replay_buffer(PLAYED)[0]),
        lambda held: Logs.from_sb3(SimpleNamespace(**held)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_whatever_an_array_is_replaced_by_is_read_or_refused(name):
    held, read = SOURCES[name]()
    read(held)
    refused = 0
    for key, value in held.items():
        others = [{k: v for k, v in held.items() if k != key}]
        for damage in DAMAGES.values():
            try:
                others.append({**held, key: damage(np.asarray(value))})
            except (TypeError, IndexError, ValueError):
                continue  # that damage is not possible here
        refused += sum(len(message(read, other)) > 20 for other in others)
    assert refused > 10


def write(folder, name):
    """A file, and the path that is read."""
    path = folder / name
    if name.endswith("json"):
        made = layouts.decisions(PLAYED) if "ds" in name else layouts.sample_batches(PLAYED)
        path.write_text("".join(json.dumps(line) + "\n" for line in made))
    elif name.endswith("npz"):
        np.savez(path, **layouts.feedback(PLAYED))
    elif name.endswith("hdf5"):
        layouts.save_flat(PLAYED, path)
    elif name.endswith("h5"):
        layouts.save_d3rlpy(PLAYED, path)
    else:
        inside = {"lake": "main_data.hdf5", "meta": "metadata.json", "arrow": "3/part-0.arrow"}
        layouts.save_minari(PLAYED, path, "arrow" if name == "arrow" else "hdf5")
        return path / "data" / inside[name], path
    return path, path


@every_fifth
@pytest.mark.parametrize(
    "name", ["x.dsjson", "o.json", "f.npz", "hopper.hdf5", "log.h5", "lake", "meta", "arrow"]
)
def test_whatever_happens_to_a_file_is_read_or_refused(name, every, tmp_path):
    rng = np.random.default_rng(7)
    path, root = write(tmp_path, name)
    good, refused = path.read_bytes(), 0
    for case in range(0, 100, every):
        data, at = bytearray(good), int(rng.integers(len(good)))
        if case % 4 == 0:
            data = data[:at]
        elif case % 4 == 1:
            data[at : at + 20] = b""
        elif case % 4 == 2:
            data[at:at] = b"\x1b[31m\x00NaN"
        else:
            data[at] = int(rng.integers(256))
        path.write_bytes(bytes(data))
        found = message(read_logs, root)
        assert found.isprintable()
        assert found.startswith(str(tmp_path)[: len(found)])
        refused += bool(found)
    assert refused > 5


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_MOST", 10_000)
    np.savez_compressed(tmp_path / "bomb.npz", action=np.zeros(10**6), reward=np.zeros(10**6))
    with pytest.raises(LogsError, match="times its size"):
        read_logs(tmp_path / "bomb.npz")


def test_pickles_in_an_archive_are_not_read_and_that_is_said(tmp_path):
    held = layouts.feedback(PLAYED) | {"extra": np.array([{"a": 1}], dtype=object)}
    np.savez(tmp_path / "log.npz", **held)
    logs = read_logs(tmp_path / "log.npz")
    assert "pickles: position, extra." in logs.source.notes[-1]
