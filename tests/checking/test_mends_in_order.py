"""All mends of a report, made in the order in which they are printed, give a log without a fault.

The logs have several faults at once, of which one may hide or undo the mend of another.
"""

import random

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.checking.running import run_steps
from tests.checking.faulty_logs import M, T, good, vectors

N = M * T


def put(frame, name, rows, value):
    values = frame[name].to_list()
    for row in rows:
        values[row - 1] = value if frame[name].dtype != pl.String or value is None else str(value)
    return frame.with_columns(pl.Series(name, values, strict=False))


def written(name, how):
    """A column of numbers as texts."""

    def change(frame):
        if name not in frame.columns or not frame[name].dtype.is_numeric():
            return frame
        texts = [None if value is None else how(value) for value in frame[name].to_list()]
        return frame.with_columns(pl.Series(name, texts, dtype=pl.String))

    return change


def with_value(name, rows, value):
    return lambda frame: put(frame, name, rows, value) if name in frame.columns else frame


def flag_words(*odd):
    words = {True: "yes", False: "no", None: None}

    def change(frame):
        if "terminated" not in frame.columns or frame["terminated"].dtype != pl.Boolean:
            return frame
        texts = [words[value] for value in frame["terminated"].to_list()]
        texts[11 : 11 + len(odd)] = odd
        return frame.with_columns(pl.Series("terminated", texts))

    return change


def headers_again(frame):
    texts = frame.select(pl.all().cast(pl.String))
    header = pl.DataFrame({name: [name] for name in texts.columns})
    return pl.concat([texts[:100], header, texts[100:]])


def added(name, values):
    return lambda frame: frame.with_columns(pl.Series(name, np.resize(values, frame.height)))


def renamed(**names):
    return lambda frame: frame.rename({k: v for k, v in names.items() if k in frame.columns})


def currency(value):
    return f"${value * 1000:,.2f}" if value >= 0 else f"-${-value * 1000:,.2f}"


CHANGES = {
    "no state": with_value("state", [5, 50], None),
    "no action": with_value("action", [7], None),
    "no episode": with_value("episode_id", [1], None),
    "no step": with_value("step", [8], None),
    "no flag": with_value("terminated", [9, 10], None),
    "no propensity": with_value("propensity", [9], None),
    "infinite": with_value("reward", [6], float("inf")),
    "huge": with_value("reward", [71], 1e200),
    "propensity of 0": with_value("propensity", [60], 0.0),
    "propensity of 2": with_value("propensity", [61], 2.0),
    "percent": written("propensity", lambda value: f"{value:.2%}"),
    "currency": written("reward", currency),
    "thousands": written("reward", lambda value: f"{value * 1e6:,.0f}"),
    "words for flags": flag_words(),
    "unknown word for a flag": flag_words("maybe"),
    "steps as texts": written("step", str),
    "after the end": with_value("terminated", [3], True),
    "headers again": headers_again,
    "out of order": lambda frame: pl.concat([frame[2:3], frame[:2], frame[3:]]),
    "a row twice": lambda frame: pl.concat([frame, frame[40:41]]),
    "late": lambda frame: frame.filter(~pl.int_range(pl.len()).is_in([18, 19])),
    "texts for nothing": lambda frame: put(written("state", str)(frame), "state", [4], "NA"),
}
NAMES = {
    "as they are": lambda frame: frame,
    "of another tool": renamed(state="s", action="a", reward="r", next_state="s_next", step="T"),
    "capitals": renamed(episode_id="Episode", step="t", terminated="Done", reward="Reward"),
    "obs of labels": renamed(state="obs", next_state="next_obs", step="timestep"),
    "obs beside a state": added("obs", np.linspace(0, 1, 7)),
    "numbered obs beside a state": added("obs_0", np.linspace(0, 1, 7)),
    "numbered action beside one": added("action_0", [0.5, 0.25]),
}


def all_mended(frame, faults):
    """The table after all statements, and the same by what looks at them beforehand."""
    scope, own = {"pl": pl, "df": frame}, frame
    for fault in faults:
        if fault.mend is not None:
            exec(fault.mend.code, scope)
            own = run_steps(own, fault.mend.steps)
    assert own.equals(scope["df"])
    return scope["df"]


def mixtures():
    draw = random.Random(0)
    for name in NAMES:
        for _ in range(3):
            yield name, tuple(draw.sample(list(CHANGES), 3))


@pytest.mark.parametrize(("name", "changes"), list(mixtures()))
def test_all_mends_in_their_order_leave_a_log_without_a_fault(name, changes):
    frame = good()
    for change in changes:
        frame = CHANGES[change](frame)
    frame = NAMES[name](frame)
    report = bd.check(frame, gamma=0.9)
    assert not [fault.sentence for fault in report.errors if fault.mend is None]
    after = all_mended(frame, report.faults)
    assert [fault.sentence for fault in bd.check(after, gamma=0.9).faults] == []
    assert after.height > N - 60  # mends leave out episodes with a fault, and no others


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12%", 0.12),
        ("-3.5 %", -0.035),
        ("$1,234.50", 1234.5),
        ("-$2.00", -2.0),
        ("($2.00)", -2.0),
        ("€ 1 234", 1234.0),
        ("1,234,567", 1234567.0),
        ("1,234", 1234.0),
        ("1.234,50", 1234.5),
        ("0,5", 0.5),
        ("1'234.5", 1234.5),
    ],
)
def test_numbers_are_read_as_people_write_them(text, number):
    frame = good().with_columns(reward=pl.lit(text))
    fault = bd.check(frame, gamma=0.9).errors[0]
    np.testing.assert_allclose(all_mended(frame, [fault])["reward"], number, rtol=1e-15)
    assert repr(text) in fault.sentence


def test_what_a_comma_means_is_told_by_the_whole_column_and_said_where_it_is_open():
    def words(*texts):
        frame = good().with_columns(pl.Series("reward", np.resize(np.array(texts, object), N)))
        fault = bd.check(frame, gamma=0.9).errors[0]
        return fault.mend.words, all_mended(frame, [fault])["reward"][:2].to_list()

    told, numbers = words("1,234", "2,345")
    assert "between thousands" in told
    assert "If it is a decimal comma" in told
    assert numbers == [1234.0, 2345.0]
    told, numbers = words("1,234", "2,345.5")
    assert "If it is a decimal comma" not in told
    assert numbers == [1234.0, 2345.5]
    assert words("1,234", "2,5")[1] == [1.234, 2.5]
    assert words("0,123", "1,234")[1] == [0.123, 1.234]


@pytest.mark.parametrize("odd", ["1234,567", "12,34,567", "12 34", "1,2,3", "1.2.3", "$", "%"])
def test_what_is_no_number_in_the_way_of_its_column_is_named(odd):
    texts = np.resize(np.array(["1,234.5", "$2,000", "7"], object), N)
    texts[8] = odd
    report = bd.check(good().with_columns(pl.Series("reward", texts)), gamma=0.9)
    assert report.errors[0].rows.tolist() == [9]
    after = all_mended(good().with_columns(pl.Series("reward", texts)), report.faults)
    assert after.height == N - T
    assert set(after["reward"]) == {1234.5, 2000.0, 7.0}


@pytest.mark.parametrize("texts", [("$1", "€1"), ("one", "two")], ids=["two currencies", "words"])
def test_texts_whose_meaning_is_not_known_are_not_mended_away(texts):
    frame = good().with_columns(pl.Series("reward", np.resize(np.array(texts, object), N)))
    (fault,) = bd.check(frame, gamma=0.9).errors
    assert fault.mend is None
    assert len(fault.rows) == N


def test_a_word_that_is_no_flag_is_named_and_never_taken_for_false():
    frame = flag_words("maybe", "unsure")(good())
    (fault,) = bd.check(frame, gamma=0.9).errors
    assert fault.rows.tolist() == [12, 13]
    assert "'maybe'" in fault.sentence
    after = all_mended(frame, [fault])
    np.testing.assert_array_equal(
        after["terminated"], good().filter(~pl.col("episode_id").is_in([1, 2]))["terminated"]
    )
    # Where most words are unknown, nothing is proposed, and all of them are told.
    words = np.resize(np.array(["first", "mid", "last"], object), N)
    fault = bd.check(good().with_columns(terminated=pl.Series(words)), gamma=0.9).errors[0]
    assert fault.mend is None
    assert all(word in fault.sentence for word in ("first", "mid", "last"))


def test_numbers_that_are_no_flags_are_not_taken_for_either():
    kinds = np.where(good()["terminated"], 1, 0)
    kinds[11] = 2
    frame = good().with_columns(terminated=pl.Series(kinds))
    (fault,) = bd.check(frame, gamma=0.9).errors
    assert all_mended(frame, [fault])["episode_id"].unique().len() == M - 1


def test_a_time_that_cannot_be_read_is_named():
    texts = [f"2024-01-01T{k // 60:02d}:{k % 60:02d}:00" for k in range(N)]
    texts[13] = "yesterday"
    frame = good().with_columns(step=pl.Series(texts)).drop("next_state")
    (fault,) = bd.check(frame, gamma=0.9).errors
    assert fault.rows.tolist() == [14]
    assert "'yesterday'" in fault.sentence
    after = all_mended(frame, [fault])
    assert after.height == N - T
    assert bd.check(after, gamma=0.9).usable


def test_headers_inside_a_table_are_told_once_and_columns_are_numbers_again():
    frame = headers_again(good())
    (fault,) = bd.check(frame, gamma=0.9).faults
    assert fault.rows.tolist() == [101]
    after = all_mended(frame, [fault])
    for name in ("episode_id", "step", "state", "reward", "propensity"):
        np.testing.assert_array_equal(after[name], good()[name])


def test_a_column_that_is_dropped_takes_no_rows_with_it():
    frame = put(put(good(), "propensity", [9], None), "propensity", [60], 0.0)
    faults = bd.check(frame, gamma=0.9).faults
    assert {fault.column for fault in faults} == {"propensity"}
    assert all_mended(frame, faults).height == N


def test_columns_are_proposed_though_another_is_missing_that_nothing_looks_like():
    frame = good().rename(
        {"state": "where", "episode_id": "Episode", "step": "t", "terminated": "Done"}
    )
    sentences = " ".join(fault.sentence for fault in bd.check(frame, gamma=0.9).faults)
    assert "There is no column 'state'" in sentences
    for name, ours in (("Episode", "episode_id"), ("t", "step"), ("Done", "terminated")):
        assert f"{name!r} looks like {ours!r}" in sentences


def test_numbers_of_observations_under_another_name_are_proposed_as_vectors():
    frame = vectors().rename({"obs_0": "Observation_0", "obs_1": "Observation_1"})
    report = bd.check(frame, gamma=0.9)
    assert "'Observation' looks like it" in report.errors[0].sentence
    assert bd.check(all_mended(frame, report.faults), gamma=0.9).usable


def test_a_step_of_a_mend_is_only_what_mends_are_written_in():
    for step in (
        "pipe(print)",
        "filter(pl.col('x').map_elements(print))",
        "filter(pl.read_csv('x'))",
        "filter(pl.__dict__)",
        "filter(__import__('os'))",
        "drop('x').write_csv('y')",
    ):
        with pytest.raises(ValueError, match="expected"):
            run_steps(good(), (step,))


def test_mends_that_leave_nothing_say_so():
    frame = put(good(), "state", range(1, N, T), None)
    report = bd.check(frame, gamma=0.9)
    assert "fewer than two rows are left" in report.errors[-1].sentence
    assert all_mended(frame, report.faults).height == 0


def test_a_step_with_a_space_behind_it_is_a_number():
    frame = put(written("step", str)(good()), "step", [9], "2 ")
    (fault,) = bd.check(frame, gamma=0.9).errors
    after = all_mended(frame, [fault])
    np.testing.assert_array_equal(after["step"], good()["step"])


def test_what_is_missing_is_told_once():
    frame = put(good(), "state", [3], None).drop("action")
    sentences = [fault.sentence for fault in bd.check(frame, gamma=0.9).faults]
    assert sentences.count("There is no column 'action'.") == 1
    assert not any("After these mends: There is no" in each for each in sentences)


def test_further_rewards_are_mended_as_the_first_is():
    texts = [f"${k},000.50" for k in range(N)]
    frame = put(good().with_columns(revenue=pl.Series(texts)), "revenue", [3], None)
    report = bd.check(frame, gamma=0.9, reward=["reward", "revenue"])
    assert [(fault.kind, fault.column) for fault in report.faults] == [
        ("missing values", "revenue"),
        ("text for numbers", "revenue"),
    ]
    after = all_mended(frame, report.faults)
    assert after["revenue"][:2].to_list() == [6000.5, 7000.5]
    assert bd.check(after, gamma=0.9, reward=["reward", "revenue"]).usable
