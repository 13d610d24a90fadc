"""Numbers as people write them are read as they are meant, and what is open is said."""

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.checking import headers
from bayesdice_ppl.checking.number_texts import read_written


@pytest.mark.parametrize(
    ("texts", "numbers", "said"),
    [
        # One decimal comma does not make thousands of the other points.
        (["1.234", "2.345", "3.456", "7,5"], [1.234, 2.345, 3.456, None], ""),
        (["0,5", "1.5"], [None, 1.5], ""),
        (["1,5", "", "", "2,5"], [1.5, None, None, 2.5], "decimal comma"),
        (["1.234,5", "1.000"], [1234.5, 1000.0], "The point stands between thousands"),
        (["€1.234", "€2.500"], [1.234, 2.5], "If the point stands between thousands"),
        (["$1,234.50", "-$3", "$ 6"], [1234.5, -3.0, 6.0], "$ is the unit."),
        (["10€50", "€3"], [None, 3.0], ""),
        (["3 100", "2 000"], [3100.0, 2000.0], "stands between thousands"),
        (["1234 567", "1"], [None, 1.0], ""),
        (["12%", "5", "12%"], [0.12, 5.0, 0.12], "Numbers without a % stay as they are: 1 of 3."),
        (["12%", None, "7 %"], [0.12, None, 0.07], "12% is 0.12."),
    ],
)
def test_a_column_is_read_in_one_way(texts, numbers, said):
    series = pl.Series("r", texts)
    read = read_written(series)
    expected = pl.Series("r", numbers, dtype=pl.Float64)
    assert read.numbers.is_null().equals(expected.is_null())
    np.testing.assert_allclose(read.numbers.drop_nulls(), expected.drop_nulls(), rtol=1e-15)
    assert said in " ".join(read.words)
    # The printed expression does what was said.
    again = pl.DataFrame(series).select(eval(read.code, {"pl": pl})).to_series()
    assert again.equals(read.numbers)


def test_all_numbers_with_a_percent_are_said_without_a_doubt():
    assert read_written(pl.Series("r", ["12%", "7%"])).words == ("12% is 0.12.",)


def log_of_texts(n=240, first=10**19):
    return pl.DataFrame(
        {
            "episode_id": [str(first + k // 6) for k in range(n)],
            "step": [str(k % 6) for k in range(n)],
            "state": ["s"] * n,
            "action": ["mail", "none"] * (n // 2),
            "reward": [str(k / 10) for k in range(n)],
        }
    )


def test_long_ids_behind_a_repeated_header_stay_apart():
    frame = log_of_texts()
    again = pl.DataFrame({name: [name] for name in frame.columns})
    lone = frame[:1].with_columns(state=pl.lit("state"))
    joined = pl.concat([frame[:100], again, frame[100:], lone])
    (fault,) = headers.find(joined)
    assert list(fault.rows) == [101]
    mended = pl.DataFrame(joined)
    for step in fault.mend.steps:
        mended = eval(f"df.{step}", {"df": mended, "pl": pl})
    assert mended.height == joined.height - 1
    assert mended["episode_id"].equals(joined.filter(pl.col("step") != "step")["episode_id"])
    assert mended["reward"].dtype == pl.Float64


def test_the_header_of_a_thousand_columns_is_found():
    wide = pl.DataFrame({f"obs_{k}": ["1.0", "2.0", f"obs_{k}"] for k in range(1000)})
    assert list(headers.header_rows(wide)) == [3]


def test_a_warning_of_which_the_mend_leaves_nothing_is_no_error():
    frame = log_of_texts(first=1).with_columns(
        pl.col("step").cast(int), pl.col("reward").cast(float)
    )
    assert bd.check(frame, gamma=0.9).usable
