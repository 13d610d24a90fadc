"""The code of docs/newcomer.md runs as it stands, on files as the tools write them."""

import json
import re
from pathlib import Path

import gymnasium
import h5py
import numpy as np
import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "newcomer.md").read_text(encoding="utf-8")
FIRST, *BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CHANCES = {"morning": (0.5, 0.3, 0.2), "evening": (0.2, 0.3, 0.5)}
RATES = {"morning": (0.3, 0.1, 0.1), "evening": (0.05, 0.2, 0.35)}
NAMES = ("tea", "milk", "rum")


def write_clicks(path):
    """Clicks that are likelier for tea in the morning and for rum in the evening."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(1500):
        time = str(rng.choice(list(CHANCES)))
        action = int(rng.choice(3, p=CHANCES[time]))
        ranked = [action, *(a for a in range(3) if a != action)]
        line = {
            "_label_cost": -float(rng.random() < RATES[time][action]),
            "_label_probability": CHANCES[time][action],
            "_label_Action": action + 1,
            "_labelIndex": action,
            "a": [a + 1 for a in ranked],
            "c": {"time": time, "_multi": [{"_tag": name} for name in NAMES]},
            "p": [CHANCES[time][a] for a in ranked],
        }
        lines.append(json.dumps(line))
    path.write_text("\n".join(lines))


def feedback():
    """A taste from -2 to 2, and clicks that are likelier where the action fits it."""
    rng = np.random.default_rng(0)
    n = 600
    context, action = rng.uniform(-2.0, 2.0, size=(n, 2)), rng.integers(3, size=n)
    fits = np.digitize(context[:, 0], (-0.5, 0.5)) == action
    return {
        "n_rounds": n,
        "n_actions": 3,
        "context": context,
        "action": action,
        "position": None,
        "reward": (rng.random(n) < np.where(fits, 0.8, 0.2)).astype(float),
        "pscore": np.full(n, 1.0 / 3.0),
    }


def write_lake(folder):
    """FrozenLake without slipping, at random, as Minari saves it."""
    data = folder / "frozenlake" / "random-v0" / "data"
    data.mkdir(parents=True)
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
    env.action_space.seed(0)
    with h5py.File(data / "main_data.hdf5", "w") as file:
        for k in range(150):
            seen, over = [env.reset(seed=k)[0]], False
            actions, rewards, ended, cut = [], [], [], []
            while not over:
                actions.append(env.action_space.sample())
                state, reward, terminated, truncated, _ = env.step(actions[-1])
                seen.append(state)
                rewards.append(float(reward))
                ended.append(terminated)
                cut.append(truncated)
                over = terminated or truncated
            group = file.create_group(f"episode_{k}")
            group["observations"], group["actions"], group["rewards"] = seen, actions, rewards
            group["terminations"], group["truncations"] = ended, cut
    env.close()
    space = {"type": "Discrete", "dtype": "int64", "start": 0}
    metadata = {
        "total_episodes": 150,
        "data_format": "hdf5",
        "observation_space": json.dumps({**space, "n": 16}),
        "action_space": json.dumps({**space, "n": 4}),
    }
    (data / "metadata.json").write_text(json.dumps(metadata))


def run(block, capsys, **given):
    held = dict(given)
    exec(FIRST + block, held)
    return capsys.readouterr().out


def test_there_are_three_paths_each_of_fewer_than_ten_lines():
    assert len(BLOCKS) == 3
    for block in BLOCKS:
        assert len([line for line in block.splitlines() if line.strip()]) < 10


def test_clicks_from_vowpal_wabbit(tmp_path, monkeypatch, capsys):
    write_clicks(tmp_path / "clicks.dsjson")
    monkeypatch.chdir(tmp_path)
    shown = run(BLOCKS[0], capsys)
    assert "state = c.time" in shown
    assert "reward = -_label_cost" in shown
    assert "propensity = p of the logged action" in shown
    assert "Try by the clock" in shown


def test_feedback_from_obp(capsys):
    assert "Try by taste" in run(BLOCKS[1], capsys, feedback=feedback())


def test_episodes_from_minari(tmp_path, monkeypatch, capsys):
    write_lake(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    shown = run(BLOCKS[2], capsys)
    assert "down or right" in shown
    assert "Try " in shown or "recommend" in shown


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([a-z]+\.md)\)", PAGE))))
def test_what_the_page_links_to_is_there(link):
    assert (Path(__file__).parent.parent / "docs" / link).is_file()
