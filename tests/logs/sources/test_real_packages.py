"""The packages themselves, where they are installed: what they write is what is read.

None of them is a dependency. Each case is left out where its package is not there.
"""

import json

import gymnasium
import numpy as np
import pytest

from bayesdice_ppl import Logs, read_logs
from tests.logs.sources import layouts
from tests.logs.sources.world import VECTORS, differences, own_log, play

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PLAYED = play()


@pytest.mark.parametrize("kind", ["hdf5", "arrow"])
def test_minari(kind, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    buffers = [
        minari.data_collector.EpisodeBuffer(
            id=k,
            observations=np.array(one.states),
            actions=np.array(one.actions),
            rewards=np.array(one.rewards),
            terminations=layouts.flags(one)[0],
            truncations=layouts.flags(one)[1],
            infos=None,
        )
        for k, one in enumerate(PLAYED)
    ]
    made = minari.create_dataset_from_buffers(
        dataset_id="lake/a-v0",
        buffer=buffers,
        observation_space=gymnasium.spaces.Discrete(5),
        action_space=gymnasium.spaces.Discrete(2),
        data_format=kind,
    )
    own = own_log(PLAYED, actions=[0, 1])
    assert differences(Logs.from_minari(made), own) == []
    assert differences(Logs.from_minari("lake/a-v0"), own) == []
    assert differences(read_logs(tmp_path / "lake" / "a-v0"), own) == []


def test_vowpal_wabbit_reads_the_same_labels():
    vw = pytest.importorskip("vowpalwabbit")
    workspace = vw.Workspace("--cb_explore_adf --dsjson --quiet")
    lines = layouts.decisions(PLAYED)
    costs = []
    for line in lines:
        examples = workspace.parse(json.dumps(line))
        costs += [
            (number, found.cost, found.probability)
            for number, one in enumerate(examples[1:])
            for found in one.get_label(vw.LabelType.CONTEXTUAL_BANDIT).costs
        ]
        workspace.finish_example(examples)
    logs = Logs.from_vw(lines)
    assert len(costs) == logs.n_transitions
    number, cost, chance = (np.array(column) for column in zip(*costs, strict=True))
    assert np.array_equal(-cost, logs.reward)
    assert np.array_equal(np.array(["left", "right"])[number], logs.action_labels[logs.action])
    np.testing.assert_allclose(chance, logs.propensity, rtol=1e-6)


def test_obp():
    dataset = pytest.importorskip("obp.dataset")
    made = dataset.SyntheticBanditDataset(n_actions=3, dim_context=2, random_state=1)
    feedback = made.obtain_batch_bandit_feedback(n_rounds=200)
    logs = Logs.from_obp(feedback)
    assert np.array_equal(logs.observation, feedback["context"])
    assert np.array_equal(logs.action_labels[logs.action], feedback["action"])
    assert np.array_equal(logs.reward, feedback["reward"])
    assert np.array_equal(logs.propensity, feedback["pscore"])
    slates = dataset.SyntheticSlateBanditDataset(
        n_unique_action=4, len_list=2, dim_context=2, random_state=1
    )
    given = slates.obtain_batch_bandit_feedback(n_rounds=50, return_pscore_item_position=True)
    logs = Logs.from_obp(given)
    assert np.array_equal(logs.propensity, given["pscore_item_position"])
    assert np.array_equal(logs.observation[:, :2], np.repeat(given["context"], 2, axis=0))


def test_d3rlpy(tmp_path):
    dataset = pytest.importorskip("d3rlpy.dataset")
    given = layouts.flat(PLAYED, following=False)
    floats = {key: given[key].astype(np.float32) for key in ("terminals", "timeouts")}
    made = dataset.MDPDataset(**{**given, **floats}, action_size=2)
    own = own_log(PLAYED, vectors=True, last_known=False, actions=[0, 1])
    assert differences(Logs.from_d3rlpy(made), own) == []
    with (tmp_path / "log.h5").open("w+b") as file:
        made.dump(file)
    own = own_log(PLAYED, vectors=True, last_known=False)
    assert differences(read_logs(tmp_path / "log.h5"), own) == []


def test_stable_baselines3():
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    made = buffers.ReplayBuffer(
        60, gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2), device="cpu"
    )
    for one in PLAYED:
        ended, cut = layouts.flags(one)
        for t in range(len(one.actions)):
            made.add(
                np.array([one.states[t]]),
                np.array([one.states[t + 1]]),
                np.array([one.actions[t]]),
                np.array([one.rewards[t]]),
                np.array([ended[t] or cut[t]]),
                [{"TimeLimit.truncated": bool(cut[t])}],
            )
    assert differences(Logs.from_sb3(made), own_log(PLAYED, actions=[0, 1])) == []


def test_datasets_of_hugging_face():
    datasets = pytest.importorskip("datasets")
    rows = {
        "observations": [VECTORS[one.states].tolist() for one in PLAYED],
        "actions": [one.actions for one in PLAYED],
        "rewards": [one.rewards for one in PLAYED],
        "terminations": [layouts.flags(one)[0].tolist() for one in PLAYED],
        "truncations": [layouts.flags(one)[1].tolist() for one in PLAYED],
    }
    made = datasets.Dataset.from_dict(rows)
    assert differences(Logs.from_hugging_face(made), own_log(PLAYED, vectors=True)) == []
    # An order of its own, which the table behind the dataset does not have.
    few = Logs.from_hugging_face(made.select([3, 1]))
    assert differences(few, own_log([PLAYED[3], PLAYED[1]], vectors=True)) == []


def test_rllib(tmp_path):
    writers = pytest.importorskip("ray.rllib.offline.json_writer")
    batches = pytest.importorskip("ray.rllib.policy.sample_batch")
    writer = writers.JsonWriter(str(tmp_path), compress_columns=[])
    for one in layouts.sample_batches(PLAYED):
        columns = {key: np.array(values) for key, values in one.items() if key != "type"}
        writer.write(batches.SampleBatch(columns))
    writer.cur_file.close()
    logs = read_logs(tmp_path)
    assert differences(logs, own_log(PLAYED, propensity=True)) == ["episode_labels"]
    assert logs.episode_labels.tolist() == [1000 + k for k in range(len(PLAYED))]
