"""Whole logs: what is said of each candidate, of coverage, and of the order."""

import polars as pl

from benchmarks.vectors.whole import whole_logs


def test_a_log_is_told_with_its_order_and_its_abstentions():
    common = {"world": "w", "seed": 3, "in_95": True}
    rows = pl.DataFrame(
        [
            {**common, "candidate": "a", "truth": 1.0, "mean": 0.5, "sd": 0.1, "abstained": False},
            {**common, "candidate": "b", "truth": 0.0, "mean": 0.8, "sd": 0.2, "abstained": False},
            {**common, "candidate": "c", "truth": 0.9, "mean": 0.85, "sd": 0.1, "abstained": False},
            {**common, "candidate": "d", "truth": 5.0, "mean": 0.0, "sd": 0.1, "abstained": True},
        ]
    ).with_columns(in_95=pl.col("candidate") == "c")
    truth, log = whole_logs(rows, "w")
    assert truth["candidates"] == "a 1.000; b 0.000; c 0.900; d 5.000"
    # a below b and a below c are wrong and far apart; b and c are in order.
    assert (log["inside"], log["order"]) == ("1 of 3", "2 of 3")
    assert "a 0.500 +- 0.100 (-5.0)" in log["candidates"]
    assert "d* 0.000 +- 0.100 (-50.0)" in log["candidates"]
