"""Faults in disguise: blank labels, texts for nothing, steps as texts, cuts called ends."""

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import LogsError
from tests.checking.faulty_logs import good, mended


def only(frame, kind):
    (fault,) = [each for each in bd.check(frame, gamma=0.9).faults if each.kind == kind]
    return fault


def words():
    return good().with_columns(pl.format("s{}", "state").alias("state")).drop("next_state")


@pytest.mark.parametrize("blank", ["", "  "], ids=["empty", "spaces"])
def test_a_blank_label_is_missing(blank):
    where = pl.int_range(pl.len()) == 3
    frame = words().with_columns(
        pl.when(where).then(pl.lit(blank)).otherwise("state").alias("state")
    )
    with pytest.raises(LogsError, match="row 4, column 'state': expected a label, found a blank"):
        bd.Logs.from_dataframe(frame)
    fault = only(frame, "missing values")
    assert fault.rows.tolist() == [4]
    assert bd.check(mended(frame, fault), gamma=0.9).usable


@pytest.mark.parametrize("text", ["NA", "null", "NaN"])
def test_texts_for_missing_values_are_told_of(text):
    where = pl.int_range(pl.len()) == 3
    frame = words().with_columns(
        pl.when(where).then(pl.lit(text)).otherwise("state").alias("state")
    )
    fault = only(frame, "texts for missing values")
    assert fault.severity == "warning"
    after = mended(frame, fault)
    assert text not in after["state"].to_list()
    assert after.height == 240 - 6
    assert not bd.check(after, gamma=0.9).faults


def test_steps_as_texts_are_read_and_not_numbered_anew():
    frame = good().with_columns(pl.col("step").cast(pl.String))
    fault = only(frame, "steps that are no numbers")
    np.testing.assert_array_equal(mended(frame, fault)["step"], good()["step"])


def capped(ends):
    """100 episodes of at most 8 steps that end by a coin, and 60 that a limit cuts."""
    rng = np.random.default_rng(0)
    length = np.r_[rng.integers(1, 8, 100), np.full(60, 8)]
    episode = np.repeat(np.arange(160), length)
    last = np.r_[episode[1:] != episode[:-1], True]
    cut = last & (episode >= 100)
    flags = {"terminated": last if ends else last & ~cut}
    flags |= {} if ends else {"truncated": cut}
    n = len(episode)
    return pl.DataFrame(
        {
            "episode_id": episode,
            "state": rng.integers(0, 3, n),
            "action": rng.integers(0, 2, n),
            "reward": rng.random(n),
            **flags,
        }
    )


def test_ends_at_a_time_limit_are_told_of_and_mended():
    fault = only(capped(ends=True), "ends at a time limit")
    assert fault.severity == "warning"
    assert "ends 60 of 160 episodes at 8 steps" in fault.sentence
    frame, right = mended(capped(ends=True), fault), capped(ends=False)
    for name in ("terminated", "truncated"):
        np.testing.assert_array_equal(frame[name], right[name])
    assert "ends at a time limit" not in {f.kind for f in bd.check(right, gamma=0.9).faults}


def test_what_stands_behind_flags_in_words_is_told_in_the_same_round():
    where = pl.int_range(pl.len()) == 2
    ended = pl.when(where | pl.col("terminated")).then(pl.lit("yes")).otherwise(pl.lit("No"))
    frame = good().with_columns(terminated=ended)
    found = bd.check(frame, gamma=0.9).errors
    assert [fault.kind for fault in found] == ["flags", "steps after an end"]
    assert found[1].rows.tolist() == [4, 5, 6]
    for fault in found:
        frame = mended(frame, fault)
    assert bd.check(frame, gamma=0.9).usable


def test_infinite_numbers_behind_text_are_told_in_the_same_round():
    texts = good()["reward"].cast(pl.String).to_list()
    texts[5], texts[17] = "inf", "n/a"
    frame = good().with_columns(pl.Series("reward", texts))
    found = bd.check(frame, gamma=0.9).errors
    assert [(fault.kind, fault.rows.tolist()) for fault in found] == [
        ("text for numbers", [18]),
        ("numbers that are not finite", [6]),
    ]
    for fault in found:
        frame = mended(frame, fault)
    assert bd.check(frame, gamma=0.9).usable


def test_a_report_says_how_the_table_of_its_mends_is_read(tmp_path):
    path = tmp_path / "log.csv"
    good().with_columns(pl.when(pl.col("step") != 3).then("reward")).write_csv(path)
    report = bd.check(path, gamma=0.9)
    scope = {"bd": bd, "pl": pl}
    exec(
        "\n".join([report.table_code, *(fault.mend.code for fault in report.faults if fault.mend)]),
        scope,
    )
    assert report.table_code in str(report).replace("\n     ", "\n")
    assert "df = bd.read_table" in report._repr_html_()
    assert not scope["df"].height  # each episode has a step 3
    assert bd.check(good(), gamma=0.9).table_code == ""
