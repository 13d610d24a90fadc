"""The summary against pencil and paper."""

import numpy as np
import polars as pl
import pytest

from benchmarks.vectors.comparison import compare
from benchmarks.vectors.score import Row, append
from benchmarks.vectors.summary import ALL, as_text, summarize


def rows_of(*given):
    """Rows of (candidate, truth, mean, sd, levels held, abstained)."""
    return pl.DataFrame(
        [
            Row(
                "w",
                seed,
                name,
                truth,
                0.0,
                mean,
                sd,
                0.5,
                *[5 - held <= k for k in range(5)],
                abstained,
                "thin; odd" if abstained else "",
                2.0,
            )
            for seed, (name, truth, mean, sd, held, abstained) in enumerate(given)
        ],
        schema=list(Row._fields),
        orient="row",
    )


ROWS = rows_of(
    ("a", 1.0, 1.0, 0.5, 5, False),
    ("a", 1.0, 2.0, 0.5, 1, False),
    ("a", 1.0, 3.0, 0.5, 0, False),
    ("a", 1.0, 9.0, 0.5, 0, True),
    ("b", 0.0, 0.5, 1.0, 4, True),
)


def test_a_candidate_by_hand():
    found = summarize(ROWS).filter(candidate="a").row(0, named=True)
    assert (found["truth"], found["pairs"], found["kept"]) == (1.0, 4, 3)
    shares = [1 / 3, 1 / 3, 1 / 3, 1 / 3, 2 / 3]
    names = ["cov_50", "cov_70", "cov_80", "cov_90", "cov_95"]
    assert [found[name] for name in names] == pytest.approx(shares)
    gaps = [0.5 - 1 / 3, 0.7 - 1 / 3, 0.8 - 1 / 3, 0.9 - 1 / 3, 0.95 - 2 / 3]
    assert found["mace"] == pytest.approx(sum(gaps) / 5)
    assert (found["bias"], found["bias_sd"]) == pytest.approx((1.0, 2.0))
    assert found["rmse"] == pytest.approx(np.sqrt((0 + 1 + 4) / 3))
    assert found["rmse_sd"] == pytest.approx(np.sqrt((0 + 4 + 16) / 3))
    assert (found["true_sd"], found["believed_sd"]) == pytest.approx((1.0, 0.5))
    # Off by 4 and by 16 sds, of which the second was abstained from.
    assert (found["far"], found["abstained_far"], found["abstained_others"]) == (2, 0.5, 0.0)


def test_all_candidates_by_hand():
    found = summarize(ROWS).filter(candidate=ALL).row(0, named=True)
    assert (found["truth"], found["pairs"], found["kept"]) == (None, 5, 3)
    assert found["true_sd"] == pytest.approx(1.0)
    assert found["abstained_others"] == pytest.approx(1 / 3)


def test_nothing_kept_is_nothing_told():
    found = summarize(ROWS).filter(candidate="b").row(0, named=True)
    assert found["kept"] == 0
    assert [found[name] for name in ("cov_50", "mace", "bias", "true_sd")] == [None] * 4
    assert found["abstained_far"] is None
    assert found["abstained_others"] == 1.0


def test_warnings_are_counted():
    text = as_text(ROWS)
    assert "| w | a | thin | 1 |" in text
    assert "| w | b | odd | 1 |" in text


def test_methods_side_by_side_by_hand(tmp_path):
    rows = [Row(**row) for row in ROWS.to_dicts()]
    # Half as wide for a and twice as wide for b, on three of a's logs and b's.
    other = [
        row._replace(sd=row.sd * (0.5 if row.candidate == "a" else 2.0))
        for row in rows
        if row.seed != 1
    ]
    files = {name: tmp_path / f"{name}.csv" for name in ("one", "two")}
    append(rows, files["one"])
    append(other, files["two"])
    first, second = compare(files).to_dicts()
    assert [(row["world"], row["method"], row["logs"]) for row in (first, second)] == [
        ("w", "one", 5),
        ("w", "two", 4),
    ]
    assert first["width"] == pytest.approx(1.0)
    assert second["width"] == pytest.approx(0.5)  # b is abstained from
    assert first["abstained"] == pytest.approx(2 / 5)
    # a is off by 0, 2, 4 and 16 sds, b by half of one: one of two is abstained from.
    assert (first["off_3_sd"], first["abstained_of_them"]) == pytest.approx((2 / 5, 1 / 2))
