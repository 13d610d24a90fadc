"""What tools of reinforcement learning mean by their arrays, and what is wrong with some."""

import json
from types import SimpleNamespace

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from bayesdice_ppl import Logs, read_logs
from bayesdice_ppl.errors import LogsError
from tests.logs.sources import layouts
from tests.logs.sources.world import VECTORS, differences, own_log, own_rows, play

PLAYED = play()


def refused(read, *given, **options):
    with pytest.raises(LogsError) as caught:
        read(*given, **options)
    return str(caught.value)


def test_the_last_observation_of_minari_says_where_a_cut_episode_led():
    logs = Logs.from_minari(layouts.minari_episodes(PLAYED))
    ends = [one.states[-1] for one in PLAYED if not one.terminated]
    assert len(ends) > 2
    assert logs.state_labels[logs.next_state[logs.truncated]].tolist() == ends


def test_dicts_and_images_are_refused_unless_a_function_makes_vectors_of_them():
    episodes = layouts.minari_episodes(PLAYED)
    dicts = [
        SimpleNamespace(
            **{
                **vars(one),
                "observations": {"goal": one.observations, "at": VECTORS[one.observations]},
            }
        )
        for one in episodes
    ]
    found = refused(Logs.from_minari, dicts)
    assert "a dict of 'goal', 'at'" in found
    assert "observe=" in found
    logs = Logs.from_minari(dicts, observe=lambda seen: seen["goal"])
    assert differences(logs, own_log(PLAYED)) == []
    broken = refused(Logs.from_minari, dicts, observe=lambda seen: seen["nothing"])
    assert "KeyError" in broken
    images = [
        SimpleNamespace(**{**vars(one), "observations": np.zeros((len(one.observations), 8, 8, 3))})
        for one in episodes
    ]
    assert "8 x 8 x 3, such as images" in refused(Logs.from_minari, images)


@pytest.mark.parametrize("kind", ["hdf5", "arrow"])
def test_a_saved_dataset_with_other_episodes_than_it_says_is_refused(kind, tmp_path):
    folder = layouts.save_minari(PLAYED, tmp_path / "a-v0", kind)
    path = folder / "data" / "metadata.json"
    held = json.loads(path.read_text())
    path.write_text(json.dumps({**held, "total_episodes": 3}))
    assert "expected 3 episodes, as metadata.json says, found 14" in refused(read_logs, folder)


def test_a_saved_dataset_is_found_by_its_name(tmp_path, monkeypatch):
    layouts.save_minari(PLAYED, tmp_path / "lake" / "a-v0")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert differences(Logs.from_minari("lake/a-v0"), own_log(PLAYED, actions=[0, 1])) == []
    found = refused(Logs.from_minari, "lake/b-v0")
    assert "minari download lake/b-v0" in found


def test_a_bad_number_is_told_by_its_episode_and_step():
    episodes = layouts.minari_episodes(PLAYED)
    episodes[2].rewards[1] = np.nan
    found = refused(Logs.from_minari, episodes)
    assert "expected a finite number, found nan" in found
    assert found.endswith("is step 1 (from 0) of episode 2.")


def test_rows_after_the_last_end_are_an_episode_that_was_cut():
    given = {name: values[:-2] for name, values in layouts.flat(PLAYED).items()}
    logs = Logs.from_d4rl(given)
    assert logs.n_transitions == len(given["rewards"])
    assert logs.truncated[-1]
    assert "have no end" in " ".join(logs.source.notes)


def test_flags_that_are_missing_are_found_by_what_followed():
    given = layouts.flat(PLAYED)
    found = refused(Logs.from_d4rl, {**given, "timeouts": np.zeros(48, dtype=bool)})
    assert "differs from observations[1:]" in found
    nothing = {
        **given,
        "timeouts": given["timeouts"] & False,
        "terminals": given["timeouts"] & False,
    }
    assert "rows at which an episode ends" in refused(Logs.from_d4rl, nothing)


def test_an_end_of_either_kind_is_asked_about():
    episodes = layouts.episode_dicts(PLAYED)
    for one in episodes:
        one["dones"] = one.pop("terminations") | one.pop("truncations")
    found = refused(Logs.from_episodes, episodes)
    assert "'dones' looks like 'terminated'" in found
    logs = Logs.from_episodes(episodes, columns={"truncated": "dones"})
    assert logs.terminated.sum() == 0
    assert logs.truncated.sum() == len(PLAYED)
    assert logs.source.taken["truncated"] == "dones (as mapped)"


def test_episodes_may_have_labels_and_columns_of_their_own():
    episodes = layouts.episode_dicts(PLAYED)
    for one in episodes:
        one["step"] = np.zeros(len(one["rewards"]))
        one["temperature"] = one["rewards"] * 2.0
        one["seed"] = 3
    named = {(k if k else "first"): one for k, one in enumerate(episodes)}
    logs = Logs.from_episodes(named)
    assert logs.episode_labels.tolist() == ["first", *(str(k) for k in range(1, len(PLAYED)))]
    assert logs.unused_columns == ("temperature",)
    assert logs.source.notes == ("Not used: step, seed.",)


def test_an_episode_without_a_step_is_left_out_and_said():
    none = {name: values[:0] for name, values in layouts.episode_dicts(PLAYED)[0].items()}
    logs = Logs.from_episodes([*layouts.episode_dicts(PLAYED), none])
    assert logs.n_episodes == len(PLAYED)
    assert "1 episode without a step left out." in logs.source.notes


def test_discrete_actions_of_d3rlpy_are_labels_and_continuous_ones_are_not():
    episodes = layouts.d3rlpy_episodes(PLAYED)
    assert Logs.from_d3rlpy(episodes).action_labels.tolist() == [0, 1]
    info = SimpleNamespace(action_space=SimpleNamespace(name="CONTINUOUS"), action_size=1)
    assert Logs.from_d3rlpy(SimpleNamespace(episodes=episodes, dataset_info=info)).vector_actions
    info = SimpleNamespace(action_space=SimpleNamespace(name="DISCRETE"), action_size=3)
    logs = Logs.from_d3rlpy(SimpleNamespace(episodes=episodes, dataset_info=info))
    assert logs.declared_actions.tolist() == [0, 1, 2]


def test_compressed_batches_are_never_unpickled():
    batch = layouts.sample_batches(PLAYED)[0] | {"obs": "BCJNGGhAtwAAAA=="}
    assert "pickle, which is never read" in refused(Logs.from_rllib, [batch])
    many = {"type": "MultiAgentBatch", "count": 3, "policy_batches": {}}
    assert "MultiAgentBatch" in refused(Logs.from_rllib, [many])


def test_probabilities_come_from_their_logarithms_where_only_these_are_kept():
    batches = layouts.sample_batches(PLAYED)
    for one in batches:
        del one["action_prob"]
    logs = Logs.from_rllib(batches)
    np.testing.assert_allclose(
        logs.propensity, [c for one in PLAYED for c in one.chances], rtol=1e-15
    )
    assert logs.source.taken["propensity"] == "exp(action_logp)"
    batches = layouts.sample_batches(PLAYED)
    batches[1]["action_logp"][0] = -5.0
    assert "expected one probability" in refused(Logs.from_rllib, batches)


def test_fragments_of_an_episode_may_stand_anywhere():
    batches = layouts.sample_batches(PLAYED, split=2)
    order = np.random.default_rng(0).permutation(len(batches))
    logs = Logs.from_rllib([batches[k] for k in order])
    own = Logs.from_dataframe(pl.DataFrame(own_rows(PLAYED, propensity=True)))
    key = ["episode_id", "step"]
    found = logs.to_dataframe().with_columns(pl.col("episode_id") - 1000).sort(key)
    assert found.equals(own.to_dataframe().sort(key))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"done": np.zeros(83)}, "expected 84 done"),
        ({"size": 83}, "expected 83 rewards"),
        ({"step_per_trajectory": 5}, "whole trajectories"),
        ({"pscore": np.zeros(84)}, "probability in (0, 1]"),
        ({"state": np.zeros((84, 4, 4))}, "images"),
    ],
)
def test_datasets_of_scope_rl_that_do_not_fit_are_refused(change, words):
    given = layouts.scope_rl(play(seed=3, stop=0.0))
    assert given["size"] == 84
    assert words in refused(Logs.from_scope_rl, {**given, **change})


def test_densities_of_scope_rl_are_multiplied():
    given = layouts.scope_rl(play(seed=3, stop=0.0))
    n = given["size"]
    chances = np.random.default_rng(0).uniform(0.5, 2.0, size=(n, 2))
    changed = {"action": np.ones((n, 2)), "pscore": chances, "n_actions": None}
    logs = Logs.from_scope_rl({**given, **changed})
    np.testing.assert_allclose(logs.propensity, chances[:, 0] * chances[:, 1], rtol=1e-15)


def test_environments_side_by_side_are_episodes_one_after_the_other():
    buffer, streams, steps = layouts.replay_buffer(PLAYED)
    logs = Logs.from_sb3(buffer)
    assert logs.n_transitions == 2 * steps
    rows = [row for stream in streams for row in stream[:steps]]
    assert logs.state_labels[logs.state].tolist() == [row[0] for row in rows]
    assert logs.reward.tolist() == [row[2] for row in rows]
    assert logs.state_labels[logs.next_state].tolist() == [row[3] for row in rows]
    assert logs.step.tolist() == [row[4] for row in rows]


def test_a_full_buffer_has_lost_the_start_of_its_first_episodes():
    buffer, streams, steps = layouts.replay_buffer(PLAYED, size=15, full=True)
    logs = Logs.from_sb3(buffer)
    rows = []
    for stream in streams:
        kept = stream[steps - 15 : steps]
        first = next(k for k, row in enumerate(kept) if row[4] == len(row[5].actions) - 1)
        rows += kept[first + 1 :]
    assert logs.reward.tolist() == [row[2] for row in rows]
    assert logs.step.tolist() == [row[4] for row in rows]
    assert f"{30 - len(rows)} rows left out" in logs.source.notes[1]


def test_buffers_that_do_not_tell_cuts_or_change_rewards_are_asked_about():
    buffer, *_ = layouts.replay_buffer(PLAYED)
    buffer.handle_timeout_termination = False
    assert "'dones' looks like 'terminated'" in refused(Logs.from_sb3, buffer)
    assert Logs.from_sb3(buffer, columns={"terminated": "dones"}).terminated.any()
    assert "episode_starts" not in refused(Logs.from_sb3, SimpleNamespace(episode_starts=1))
    assert "without" in refused(Logs.from_sb3, SimpleNamespace(rewards=1))


class Corridor(gymnasium.Env):
    """Counts the steps; ends at 3, or is cut after 2 by its wrapper where that comes first."""

    observation_space = gymnasium.spaces.Box(0.0, 9.0, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, end):
        self.end, self.at = end, 0

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.array([0.0]), {}

    def step(self, action):
        self.at += 1
        return np.array([float(self.at)]), float(self.at), self.at == self.end, False, {}


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_vectors_of_environments_reset_themselves_and_no_row_of_that_is_kept(mode):
    made = [lambda: Corridor(3), lambda: TimeLimit(Corridor(9), 2)]
    envs = SyncVectorEnv(made, autoreset_mode=AutoresetMode[mode])
    seen, rewards, ended, cut, finals = [envs.reset()[0].copy()], [], [], [], []
    actions = np.zeros((12, 2), dtype=int)
    for t in range(12):
        observation, reward, terminated, truncated, infos = envs.step(actions[t])
        seen.append(observation.copy())
        rewards.append(reward.copy())
        ended.append(terminated.copy())
        cut.append(truncated.copy())
        final = observation.copy()
        for i, last in enumerate(infos.get("final_obs", [])):
            if last is not None:
                final[i] = last
        finals.append(final)
    envs.close()
    logs = Logs.from_rollout(
        seen, actions, rewards, ended, cut, autoreset=mode.lower(), final_observations=finals
    )
    frame = logs.to_dataframe()
    # Of every full episode by hand: 0 1 2 and an end at 3, or 0 1 and a cut that leads to 2.
    for _, one in frame.group_by("episode_id", maintain_order=True):
        whole = one["obs_0"].to_list()
        assert whole == [float(k) for k in range(len(whole))]
        assert one["reward"].to_list() == [k + 1.0 for k in range(len(whole))]
        if one["terminated"].any():
            assert whole == [0.0, 1.0, 2.0]
        elif len(whole) == 2:
            assert one["next_obs_0"].to_list() == [1.0, 2.0]
    assert frame["terminated"].sum() == 12 // (4 if mode == "NEXT_STEP" else 3)
    said = " ".join(logs.source.notes)
    assert ("only reset an environment" in said) == (mode == "NEXT_STEP")


def test_a_rollout_of_other_shapes_is_refused():
    good = [np.zeros((4, 2, 1)), np.zeros((3, 2), int), np.zeros((3, 2)), np.zeros((3, 2), bool)]
    flags = np.zeros((3, 2), bool)
    assert "shape (4, 2, ...)" in refused(Logs.from_rollout, good[0][:3], *good[1:], flags)
    assert "autoreset" in refused(Logs.from_rollout, *good, flags, autoreset="never")
    assert "truncations of shape (3, 2" in refused(Logs.from_rollout, *good, flags[:2])


def test_packed_episodes_of_rllib_are_refused_with_the_way_to_write_a_table(tmp_path):
    path = tmp_path / "run.parquet"
    pl.DataFrame({"item": [b"\x82\xa1a\xc0", b"\x82"]}).write_parquet(path)
    with pytest.raises(LogsError, match="output_write_episodes=False"):
        read_logs(path)
