"""Columns of rewards: which are read, and what is refused."""

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs, read_logs
from bayesdice_ppl.errors import LogsError

TABLE = pl.DataFrame(
    {
        "episode_id": [1, 0, 1, 0],
        "step": [0, 0, 1, 1],
        "state": [0, 1, 1, 0],
        "action": [0, 1, 0, 1],
        "click": [1, 0, 0, 1],
        "cost": [0.5, 1.5, 2.5, 3.5],
    }
)


def test_the_first_is_the_reward_and_the_others_stand_beside_it():
    logs = Logs.from_dataframe(TABLE, reward=["click", "cost"])
    alone = Logs.from_dataframe(TABLE.drop("cost"), columns={"reward": "click"})
    np.testing.assert_array_equal(logs.reward, alone.reward)
    # Rows are grouped by episode.
    np.testing.assert_array_equal(logs.other_rewards["cost"], [0.5, 2.5, 1.5, 3.5])
    assert logs.rewards == ("click", "cost")
    assert logs.unused_columns == ()
    assert not logs.groups


def test_one_of_them_makes_a_log_of_its_own():
    logs = Logs.from_dataframe(TABLE, reward=["click", "cost"]).with_reward("cost")
    alone = Logs.from_dataframe(TABLE.drop("click"), reward="cost")
    assert logs.rewards == alone.rewards == ("cost",)
    np.testing.assert_array_equal(logs.reward, alone.reward)


def test_a_log_without_names_has_one_reward():
    assert Logs.from_dataframe(TABLE.rename({"click": "reward"})).rewards == ("reward",)
    assert Logs.from_dataframe(TABLE, columns={"reward": "click"}).rewards == ("click",)


def test_a_column_named_reward_may_come_second():
    logs = Logs.from_dataframe(TABLE.rename({"cost": "reward"}), reward=["click", "reward"])
    np.testing.assert_array_equal(logs.reward, [1, 0, 0, 1])
    np.testing.assert_array_equal(logs.other_rewards["reward"], [0.5, 2.5, 1.5, 3.5])
    again = Logs.from_dataframe(logs.to_dataframe(), reward=["click", "reward"])
    np.testing.assert_array_equal(again.reward, logs.reward)
    np.testing.assert_array_equal(again.other_rewards["reward"], logs.other_rewards["reward"])


def test_the_frame_holds_all_of_them():
    logs = Logs.from_dataframe(TABLE, reward=["click", "cost"])
    again = Logs.from_dataframe(logs.to_dataframe(), reward=["reward", "cost"])
    np.testing.assert_array_equal(again.other_rewards["cost"], logs.other_rewards["cost"])


def test_files_with_decimal_commas(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("state;action;click;cost\na;0;1;0,5\nb;1;0;1,5\n")
    logs = read_logs(path, reward=["click", "cost"])
    np.testing.assert_array_equal(logs.other_rewards["cost"], [0.5, 1.5])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reward": []}, "name of a column, or a list"),
        ({"reward": [1]}, "name of a column, or a list"),
        ({"reward": ["click", "price"]}, "a column of the table, found 'price'"),
        ({"reward": ["click", "click"]}, "named twice"),
        ({"reward": ["click"], "columns": {"reward": "cost"}}, "mapped by columns"),
        ({"reward": ["click", "cost"], "columns": {"propensity": "cost"}}, "one meaning"),
        ({"reward": ["state", "cost"]}, "state"),
        ({"reward": ["click", "cost"], "ignore": ["cost"]}, "cost"),
    ],
    ids=["none", "number", "missing", "twice", "mapped", "two meanings", "state", "ignored"],
)
def test_what_is_no_column_of_rewards_is_refused(given, words):
    with pytest.raises(LogsError, match=words):
        Logs.from_dataframe(TABLE, **given)


@pytest.mark.parametrize("name", ["loss", "weights", "pair"])
def test_names_that_a_belief_uses_are_refused(name):
    table = TABLE.rename({"cost": name})
    with pytest.raises(LogsError, match=f"names that a belief can hold, found '{name}'"):
        Logs.from_dataframe(table, reward=["click", name])


def test_a_column_that_a_log_takes_is_no_further_reward():
    table = TABLE.rename({"cost": "propensity"})
    with pytest.raises(LogsError, match="without a meaning of their own, found 'propensity'"):
        Logs.from_dataframe(table, reward=["click", "propensity"])


def test_a_further_reward_is_checked_as_the_first():
    broken = TABLE.with_columns(cost=pl.Series([0.5, None, 2.5, float("nan")]))
    with pytest.raises(LogsError, match="row 2, column 'cost'"):
        Logs.from_dataframe(broken, reward=["click", "cost"])
