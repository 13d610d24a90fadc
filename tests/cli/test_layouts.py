"""The commands read other tools' files, and say what they took as what."""

import json

import numpy as np
import pytest

from tests.logs.sources import layouts
from tests.logs.sources.world import play

PLAYED = play()


def write(folder, name):
    path = folder / name
    if name.endswith("json"):
        made = layouts.decisions(PLAYED) if "ds" in name else layouts.sample_batches(PLAYED)
        path.write_text("".join(json.dumps(line) + "\n" for line in made))
    elif name.endswith("npz"):
        np.savez(path, **layouts.feedback(PLAYED))
    elif name.endswith("hdf5"):
        layouts.save_flat(PLAYED, path)
    else:
        layouts.save_minari(PLAYED, path)
    return path


@pytest.mark.parametrize(
    ("name", "gamma", "words"),
    [
        ("log.dsjson", 0, "Read as Vowpal Wabbit dsjson: state = c.User.segment"),
        ("output.json", 0.9, "Read as RLlib: episode_id = eps_id"),
        ("feedback.npz", 0, "Not used: action_context, expected_reward."),
        ("hopper.hdf5", 0.9, "truncated = timeouts"),
        ("lake", 0.9, "next_state = the next of observations"),
    ],
)
def test_check_says_what_it_took_as_what(name, gamma, words, tmp_path, run):
    code, out = run("check", write(tmp_path, name), "--gamma", gamma)
    assert code == 0, out.err
    assert words in out.out.replace("\n", " ")


def test_select_ranks_from_a_log_of_vowpal_wabbit(tmp_path, run):
    rows = [f"{p},s{s},{a},1.0" for s in range(5) for p, a in (("l", "left"), ("r", "right"))]
    (tmp_path / "candidates.csv").write_text("\n".join(["policy,state,action,prob", *rows]))
    log, out = write(tmp_path, "log.dsjson"), tmp_path / "out"
    words = ["select", log, "-p", tmp_path / "candidates.csv", "--gamma", "0", "-o", out]
    code, shown = run(*words, "--seed", "1")
    assert code in (0, 3), shown.err
    assert (out / "ranking.json").exists()


@pytest.mark.parametrize("name", ["log.dsjson", "output.json", "feedback.npz", "hopper.hdf5"])
def test_a_file_that_is_cut_off_is_a_sentence_and_exit_code_2(name, tmp_path, run):
    path = write(tmp_path, name)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    code, out = run("check", path, "--gamma", 0)
    assert code == 2
    assert out.err.startswith(f"Error: {path}")
    assert out.err.count("\n") == 1


def test_a_layout_that_there_is_not_is_refused(tmp_path, run):
    code, out = run("check", write(tmp_path, "log.dsjson"), "--gamma", 0, "--layout", "excel")
    assert code == 2
    assert "expected one of 'table', 'minari'" in out.err
