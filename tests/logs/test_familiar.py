"""Columns of other tools: proposed, refused where they matter, and left alone where they do not."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdice_ppl import Logs, read_logs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.familiar import guess, plain

NAMES = {
    "episode_id": [
        "episode",
        "eps_id",
        "traj_id",
        "trajectory",
        "ep",
        "Episode-ID",
        "episodeIndex",
    ],
    "step": ["t", "time_step", "TimeStep", "step_idx", "STEP"],
    "terminated": ["done", "dones", "terminal", "terminals", "isDone", "Terminated"],
    "truncated": ["timeouts", "TimeLimit.truncated", "truncation"],
    "next_state": ["next_states", "s_prime", "nextState"],
}


def table(rows=12, length=3):
    """Episodes of three steps: the second of every two is cut, the others end."""
    n = rows // length
    episode = np.repeat(np.arange(n), length)
    place = np.tile(np.arange(length), n)
    last = place == length - 1
    return pl.DataFrame(
        {
            "episode_id": episode,
            "step": place,
            "state": (episode + place) % 3,
            "action": place % 2,
            "reward": (episode * place % 4).astype(float),
            "next_state": (episode + place + 1) % 3,
            "terminated": last & (episode % 2 == 0),
            "truncated": last & (episode % 2 == 1),
        }
    )


def refusal(frame, **options):
    with pytest.raises(LogsError) as caught:
        Logs.from_dataframe(frame, **options)
    return str(caught.value)


def same(one, other):
    """Whether two logs are one, whatever else their tables hold."""
    groups = {*one.groups, *other.groups}
    ours = [name for name in one.to_dataframe().columns if name not in groups]
    return one.to_dataframe()[ours].equals(other.to_dataframe()[ours])


@pytest.mark.parametrize(
    ("key", "name"), [(key, name) for key in NAMES for name in NAMES[key] if key != "truncated"]
)
def test_a_name_of_another_tool_is_refused_and_the_message_mends_it(key, name):
    """The proposal, taken word for word, gives the log; ignoring it is the other way out."""
    whole = table() if key != "episode_id" else table().drop("step")
    frame = whole.rename({key: name})
    if key == "step":
        # Out of order: as they stand, the rows would be joined in the order of the table.
        frame = frame.reverse().drop("next_state", "terminated", "truncated")
    message = refusal(frame)
    assert f"{name!r} looks like {key!r}" in message
    assert f"columns={{{key!r}: {name!r}}} (--columns {key}={name})" in message
    assert f"ignore=[{name!r}] (--ignore {name})" in message
    if key == "step":
        assert "Sort each episode by step" in refusal(frame, columns={key: name})
    else:
        assert same(Logs.from_dataframe(frame, columns={key: name}), Logs.from_dataframe(whole))
    ignored = Logs.from_dataframe(frame, ignore=[name])
    assert same(ignored, Logs.from_dataframe(frame.drop(name)))
    assert name in ignored.unused_columns


def test_several_are_told_at_once_with_one_mapping_for_all():
    theirs = {"episode_id": "eps_id", "step": "t", "terminated": "terminals"}
    theirs["truncated"] = "timeouts"
    frame = table().rename(theirs).drop("next_state")
    message = refusal(frame, columns={"reward": "reward"})
    found = re.search(r"--columns ([\w=,]+)", message).group(1)
    columns = dict(pair.split("=") for pair in found.split(","))
    assert columns == {"reward": "reward", **theirs}
    whole = Logs.from_dataframe(table().drop("next_state"))
    assert same(Logs.from_dataframe(frame, columns=columns), whole)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(NAMES)),
    st.data(),
    st.sampled_from([str.upper, str.title, str.lower]),
    st.sampled_from(["", "_", " ", "-", "."]),
)
def test_case_and_punctuation_do_not_count(key, data, case, mark):
    name = data.draw(st.sampled_from([key, *NAMES[key]]))
    spelled = mark + case(name).replace("_", mark or "_") + mark
    if spelled == key:
        assert guess([spelled], [key]) == {}
    else:
        assert guess([spelled], [key]) == {key: spelled}
        assert plain(spelled) == plain(name)


@pytest.mark.parametrize(
    "extra",
    [
        {"done": [False] * 12},
        {"done": [0.0] * 12},
        {"terminal": ["station"] * 12},
        {"timeouts": [False, False, True] * 4},
        {"timeout": [30.0] * 12},
        {"t": list(range(12))},
        {"t": [0, 1, 2] * 4},
        {"t": np.arange(12) * 7 + 1_700_000_000},
        {"timestamp": np.arange(12) * 0.05},
        {"episode_idx": list(range(12)), "pscore": [0.5] * 12},
        {"next_states": [None] * 12},
        {"user_id": [1, 2, 3] * 4, "session": list("abc") * 4},
    ],
    ids=lambda extra: ", ".join(f"{key}" for key in extra),
)
def test_what_changes_nothing_is_left_alone(extra):
    """Constant flags, clocks, text, numbers of rows: no error, and the same log as without."""
    frame = table().drop("step", "terminated", "truncated", "next_state")
    logs = Logs.from_dataframe(frame.with_columns(pl.Series(k, v) for k, v in extra.items()))
    assert same(Logs.from_dataframe(frame), logs)
    assert set(extra) <= set(logs.unused_columns)
    assert ("user_id" in logs.looked_at) == ("user_id" in extra)


def test_a_bandit_that_numbers_its_rounds_is_left_alone():
    frame = pl.DataFrame({"state": [0] * 6, "action": [0, 1] * 3, "reward": [0.0, 1.0] * 3})
    rounds = frame.with_columns(t=pl.arange(6), done=pl.lit(True), pscore=pl.lit(0.5))
    logs = Logs.from_dataframe(rounds)
    assert logs.n_episodes == 6
    assert logs.lookalikes == {"step": "t", "terminated": "done", "propensity": "pscore"}
    assert "columns={'propensity': 'pscore'}" in logs.proposal("propensity")


def test_ends_of_some_rows_ask_for_the_episodes_at_any_discount():
    frame = pl.DataFrame({"state": [0] * 6, "action": [0, 1] * 3, "reward": [0.0, 1.0] * 3})
    ends = frame.with_columns(done=pl.Series([False, False, True] * 2))
    with pytest.raises(LogsError, match="true in 2 of 6 rows, as at the ends of episodes"):
        Logs.from_dataframe(ends)
    assert Logs.from_dataframe(ends, ignore=["done"]).n_episodes == 6


def test_steps_that_start_again_ask_for_the_episodes():
    frame = table().drop("episode_id").rename({"step": "t"})
    assert "'t' looks like 'step': it starts again at row 4" in refusal(
        frame.drop("terminated", "truncated")
    )


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"t": [0, 2, 1, *[0, 1, 2] * 3]}, "by it row 3 of the table comes before row 2"),
        ({"t": [0, 1, 2, 3, 4, 5, *[0, 1, 2] * 2]}, "an episode starts late, at row 4"),
        ({"t": [0, 1, 3, *[0, 1, 2] * 3]}, "steps are missing between rows 2 and 3"),
        ({"timeouts": [True, *[False] * 11]}, "it ends an episode at row 1"),
        ({"dones": [0] * 11 + [1]}, "it is true in 1 row,"),
        ({"s_prime": [None] * 11 + [1]}, "what followed 1 row"),
    ],
)
def test_the_message_says_what_would_change(extra, words):
    frame = table().drop("step", "terminated", "truncated", "next_state")
    assert words in refusal(frame.with_columns(pl.Series(k, v) for k, v in extra.items()))


def test_a_propensity_matters_on_vectors():
    frame = pl.DataFrame({"obs_0": [0.1, 0.2], "action": ["x", "y"], "reward": [0.0, 1.0]})
    assert "'pscore' looks like 'propensity'" in refusal(frame.with_columns(pscore=0.5))
    assert Logs.from_dataframe(frame.with_columns(pscore=7.0)).lookalikes  # no probability


@pytest.mark.parametrize(
    ("names", "proposal"),
    [
        (["s", "a", "r"], "{'state': 's', 'action': 'a', 'reward': 'r'}"),
        (["State", "Action", "Reward"], "{'state': 'State', 'action': 'Action', 'reward': 'Rew"),
        (["context", "arm", "click"], "{'state': 'context', 'action': 'arm', 'reward': 'click'}"),
        (["observations_0", "act", "rews"], "{'action': 'act', 'reward': 'rews', 'obs': 'observa"),
    ],
)
def test_where_a_column_is_missing_those_that_look_like_it_are_proposed(names, proposal):
    frame = pl.DataFrame({name: [0, 1] for name in names})
    assert f"pass columns={proposal}" in refusal(frame)


def test_lists_are_proposed_as_observations():
    frame = pl.DataFrame({"observation": [[0.1], [0.2]], "action": [0, 1], "reward": [0, 1]})
    assert "pass columns={'obs': 'observation'}" in refusal(frame)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ignore": ["doen"]}, "ignore: expected a column of the table .--ignore., found 'doen'"),
        ({"ignore": "done"}, "expected a list of names"),
        ({"ignore": [3]}, "expected a list of names"),
        ({"ignore": ["step"], "columns": {"step": "step"}}, "'step' is mapped by columns= "),
        ({"ignore": ["reward"]}, "missing column 'reward'"),
    ],
)
def test_what_cannot_be_ignored_is_refused(options, words):
    assert re.search(words, refusal(table(), **options))


def test_a_column_of_ours_can_be_ignored_too():
    """Without the episodes every row stands alone; their ids still say which rows move together."""
    logs = Logs.from_dataframe(table(), ignore=["episode_id", "step", "next_state", "terminated"])
    assert logs.n_episodes == logs.n_transitions
    assert "episode_id" in logs.looked_at


def test_a_file_is_named_and_its_columns_can_be_ignored(tmp_path):
    path = tmp_path / "logs.csv"
    table().rename({"terminated": "done"}).write_csv(path)
    with pytest.raises(LogsError, match=r"logs\.csv: columns that look like ours"):
        read_logs(path)
    assert read_logs(path, ignore=["done"]).terminated.sum() == 0
