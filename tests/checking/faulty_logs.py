"""A good log, and one for each kind of fault, with the rows in which it is."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl

M, T = 40, 6


def good():
    """40 episodes of 6 steps, of which each even one terminates."""
    rng = np.random.default_rng(7)
    n = M * T
    last = np.arange(n) % T == T - 1
    state = rng.integers(0, 4, n)
    return pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(M), T),
            "step": np.tile(np.arange(T), M),
            "state": state,
            "action": rng.integers(0, 2, n),
            "reward": np.round(rng.normal(size=n), 6),
            "next_state": np.where(last, rng.integers(0, 4, n), np.r_[state[1:], 0]),
            "terminated": last & (np.repeat(np.arange(M), T) % 2 == 0),
            "propensity": np.full(n, 0.5),
        }
    )


def put(name, rows, value, frame=None):
    """The log with a value in some rows, counted from 1."""
    frame = good() if frame is None else frame
    where = (pl.int_range(pl.len()) + 1).is_in(rows)
    return frame.with_columns(
        pl.when(where).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
    )


def plain():
    """Without what says that rows follow each other."""
    return good().drop("step", "next_state", "terminated")


def vectors():
    rng = np.random.default_rng(8)
    frame = good().drop("state", "next_state")
    return frame.with_columns(
        obs_0=pl.Series(rng.normal(size=M * T)), obs_1=pl.Series(rng.normal(size=M * T))
    )


def lists():
    frame = vectors()
    return frame.select(pl.exclude("obs_0", "obs_1"), pl.concat_list("obs_0", "obs_1").alias("obs"))


def short_vector():
    frame = lists()
    short = pl.col("obs").list.head(1)
    return frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 30).then(short).otherwise("obs").alias("obs")
    )


def times():
    start = datetime(2024, 1, 1)
    moments = [start + timedelta(minutes=k) for k in range(M * T)]
    moments[8] = moments[7]
    return good().drop("next_state").with_columns(step=pl.Series(moments))


def twice_different():
    copy = good()[40:41].with_columns(reward=pl.lit(9.0))
    return pl.concat([good(), copy])


def two_runs():
    """Two runs that numbered their episodes alike."""
    rng = np.random.default_rng(9)
    other = good().with_columns(reward=pl.Series(rng.normal(size=M * T)))
    return pl.concat([good(), other])


def shuffled():
    return pl.concat([good()[2:3], good()[:2], good()[3:]])


def late():
    return good().filter((pl.col("episode_id") != 3) | (pl.col("step") > 1))


def gaps():
    rows = (pl.int_range(pl.len()) + 1).is_in([10, 40])
    return good().drop("next_state").filter(~rows)


def in_pieces():
    frame = plain()
    return pl.concat([frame[:3], frame[6:], frame[3:6]])


def copied_episode():
    return pl.concat([good(), good()[:T].with_columns(episode_id=pl.lit(M).cast(pl.Int64))])


def copied_rows():
    moments = [datetime(2024, 1, 1) + timedelta(hours=k) for k in range(M * T)]
    frame = plain().drop("episode_id").with_columns(seen=pl.Series(moments))
    return pl.concat([frame, frame[10:12]])


def contradicted():
    frame = good()
    changed = (frame["next_state"] + 1) % 4
    rows = (pl.int_range(pl.len()) + 1) == 14
    return frame.with_columns(next_state=pl.when(rows).then(changed).otherwise("next_state"))


def text(name, rows, value):
    return put(name, rows, value, good().with_columns(pl.col(name).cast(pl.String)))


def sets(changed, kind=None):
    """Every action allowed, but for some rows, counted from 1."""
    held = [[0, 1]] * (M * T)
    for row, each in changed.items():
        held[row - 1] = each
    frame = plain().with_columns(pl.Series("allowed_actions", held, dtype=pl.List(pl.Int64)))
    if kind is str:
        text = pl.col("allowed_actions").list.eval(pl.element().cast(pl.String)).list.join("|")
        frame = frame.with_columns(text)
    return frame


def other_action(row):
    return [1 - plain()["action"][row - 1]]


FAULTS = {
    "empty set": ("allowed actions", sets({5: [], 50: None}), [5, 50]),
    "empty set as text": ("allowed actions", sets({5: []}, str), [5]),
    "set without the action": ("allowed actions", sets({7: other_action(7)}), [7]),
    "set without the action as text": ("allowed actions", sets({7: other_action(7)}, str), [7]),
    "missing state": ("missing values", put("state", [5, 50], None), [5, 50]),
    "missing action": ("missing values", put("action", [7], None), [7]),
    "missing reward": ("missing values", put("reward", [240], None), [240]),
    "missing episode": ("missing values", put("episode_id", [1], None), [1]),
    "missing step": ("missing values", put("step", [8], None), [8]),
    "missing flag": ("missing values", put("terminated", [9, 10], None), [9, 10]),
    "missing propensity": ("missing values", put("propensity", [9], None), [9]),
    "missing number of a vector": (
        "missing values",
        put("obs_1", [3], None, vectors()),
        [3],
    ),
    "infinite reward": ("numbers that are not finite", put("reward", [6], float("inf")), [6]),
    "NaN reward": ("numbers that are not finite", put("reward", [6, 7], float("nan")), [6, 7]),
    "infinite observation": (
        "numbers that are not finite",
        put("obs_0", [6], float("-inf"), vectors()),
        [6],
    ),
    "short vector": ("numbers out of range", short_vector(), [31]),
    "huge reward": ("numbers out of range", put("reward", [6], 1e200), [6]),
    "propensity of 0": ("numbers out of range", put("propensity", [60], 0.0), [60]),
    "percentages": (
        "numbers out of range",
        good().with_columns(propensity=pl.lit(50.0)),
        list(range(1, M * T + 1)),
    ),
    "text reward": ("text for numbers", text("reward", [17], "n/a"), [17]),
    "numbers as text": (
        "text for numbers",
        good().with_columns(pl.col("reward").cast(pl.String)),
        list(range(1, M * T + 1)),
    ),
    "fraction as state": (
        "labels",
        put("state", [4], 0.5, good().drop("next_state")),
        [4],
    ),
    "vectors as states": (
        "labels",
        lists().rename({"obs": "state"}),
        [],
    ),
    "moments as states": (
        "labels",
        good()
        .drop("next_state")
        .with_columns(state=pl.datetime(2024, 1, 1) + pl.duration(days="state")),
        [],
    ),
    "two kinds of labels": (
        "two kinds of labels",
        good().with_columns(pl.col("next_state").cast(pl.String)),
        [],
    ),
    "flags in words": ("flags", text("terminated", [12], "yes"), [12]),
    "flags in numbers": (
        "flags",
        put("terminated", [12], 2, good().with_columns(pl.col("terminated").cast(pl.Int64))),
        [12],
    ),
    "step twice, equal rows": ("steps given twice", pl.concat([good(), good()[40:41]]), [241]),
    "step twice, other rows": ("steps given twice", twice_different(), [241]),
    "two runs": ("steps given twice", two_runs(), list(range(241, 481))),
    "one time twice": ("steps given twice", times(), [9]),
    "unsorted": ("steps out of order", shuffled(), [2]),
    "late start": ("episodes that start late", late(), [19]),
    "gaps": ("missing steps", gaps(), [10, 39]),
    "steps in words": (
        "steps that are no numbers",
        good().with_columns(step=pl.format("step {}", "step")),
        [],
    ),
    "goes on after its end": ("steps after an end", put("terminated", [3], True), [4, 5, 6]),
    "in pieces": ("episodes in pieces", in_pieces(), [238]),
    "next state contradicts": ("next states", contradicted(), [14]),
    "copied episode": ("episodes given twice", copied_episode(), list(range(241, 247))),
    "copied rows": ("rows given twice", copied_rows(), [241, 242]),
    "other names": (
        "missing columns",
        good().rename({"state": "context", "reward": "click"}),
        [],
    ),
    "done": ("columns that look like ours", good().rename({"terminated": "done"}), []),
}
"""Name -> kind, log, rows."""


def mended(frame, fault):
    """The table after the statements that the report prints."""
    scope = {"pl": pl, "df": frame}
    exec(fault.mend.code, scope)
    return scope["df"]
