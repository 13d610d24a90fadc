"""Columns that give one thing twice, and observations that are no vectors.

What decides is what the columns hold: labels are whole numbers or text, and vectors lists or a
column for each number. Only columns that the user has not mapped are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from bayesdice_ppl.checking.fault import ERROR, Fault, Mend
from bayesdice_ppl.logs.familiar import guess

KIND = "columns that clash"
_NEXT = {"state": "next_state", "obs": "next_obs"}


def find(
    frame: pl.DataFrame, columns: Mapping[str, str] | None, ignore: Sequence[str] = ()
) -> list[Fault]:
    """Find columns of which reading has to leave one out.

    Parameters
    ----------
    frame, columns, ignore
        As for `Logs.from_dataframe`.
    """
    mapping = dict(columns or {})
    away = {*ignore, *mapping.values()}
    held = [name for name in frame.columns if name not in away]

    def own(key: str) -> list[str]:
        """The columns of one of our names that nobody mapped."""
        if key in mapping:
            return []
        numbered = [name for name in held if re.fullmatch(re.escape(key) + "_[0-9]+", name)]
        labels = key in ("state", "next_state")
        return [key] * (key in held) + ([] if labels else numbered)

    found: list[Fault] = []
    gone: set[str] = set()

    def drop(several: Sequence[str], sentence: str, words: str) -> None:
        names = [name for name in several if name not in gone]
        gone.update(names)
        step = f"drop({', '.join(map(repr, names))})"
        found.append(Fault(KIND, ERROR, names[0], sentence, mend=Mend(words, (step,))))

    for key in ("obs", "next_obs", "action"):
        several = own(key)
        if key in several and len(several) > 1:
            kept = _is_vector(frame[key]) or (key == "action" and _is_label(frame[key]))
            less, more = (several[1:], [key]) if kept else ([key], several[1:])
            drop(
                less,
                f"Columns {key!r} and {several[1]!r} both give the {_word(key)}.",
                f"Keep {_names(more)}. (Or keep {_names(less)} and drop the other.)",
            )
    state = own("state")
    obs = [name for name in own("obs") if name not in gone]
    if state and obs:
        kept = _is_label(frame["state"]) or not (obs != ["obs"] or _is_vector(frame["obs"]))
        less, more = (obs, state) if kept else (state, obs)
        follow = [n for n in own(_NEXT["obs" if kept else "state"]) if n not in gone]
        drop(
            [*less, *follow],
            f"Columns 'state' and {obs[0]!r} both give the state.",
            f"Keep {_names(more)}, for candidates that are written in "
            f"{'labels' if kept else 'vectors'}. (Or keep {_names(less)} and drop the other.)",
        )
        state, obs = ([], obs) if not kept else (state, [])
    alike = guess([name for name in held if name not in obs], ["state"]).get("state")
    if obs == ["obs"] and alike and not state and not _is_vector(frame["obs"]):
        words = f"Drop 'obs', if {alike!r} is the state. (If it is not, drop it instead.)"
        drop(obs, f"'obs' holds no lists, and {alike!r} looks like the state.", words)
        obs = []
    single = _scalars(frame, [name for name in obs if name == "obs"], own("next_obs"), gone)
    found += single
    if single:
        state, obs = (["state"], []) if _is_label(frame["obs"]) else ([], ["obs_0"])
    label_state = bool(state) or "state" in mapping
    if label_state == (bool(obs) or "obs" in mapping):
        return found  # none, or what the mapping has chosen
    other = _NEXT["obs"] if label_state else _NEXT["state"]
    follow = [name for name in own(other) if name not in gone and name not in _renamed(found)]
    by_name = ("state" not in mapping) if label_state else ("obs" not in mapping)
    if follow and by_name:
        kind = "labels" if label_state else "vectors"
        drop(
            follow,
            f"{follow[0]!r} gives next states of another kind than the states, which are {kind}.",
            "Drop it: the next row gives the next state. What followed the last row of an episode "
            "is then not known.",
        )
    return found


def _scalars(
    frame: pl.DataFrame, obs: list[str], following: list[str], gone: set[str]
) -> list[Fault]:
    """An observation of one number or text, which is a label or a vector of one number."""
    if not obs or _is_vector(frame["obs"]) or frame["obs"].dtype == pl.Null:
        return []
    labels = _is_label(frame["obs"])
    if not labels and not frame["obs"].dtype.is_numeric():
        return []
    pairs = {"obs": "state" if labels else "obs_0"}
    after = [name for name in following if name == "next_obs" and name not in gone]
    if after and not _is_vector(frame["next_obs"]) and "next_state" not in frame.columns:
        pairs["next_obs"] = "next_state" if labels else "next_obs_0"
    kind = "labels" if labels else "one number each"
    sentence = f"'obs' holds {kind}, and should hold lists of numbers."
    words = (
        "Name it as labels are named. (If it is a measurement, name it obs_0 instead.)"
        if labels
        else "Name it as the first number of a vector."
    )
    return [Fault(KIND, ERROR, "obs", sentence, mend=Mend(words, (f"rename({pairs!r})",)))]


def _renamed(found: Sequence[Fault]) -> set[str]:
    steps = [step for fault in found if fault.mend for step in fault.mend.steps]
    return {"next_obs"} if any("'next_obs':" in step for step in steps) else set()


def _is_vector(series: pl.Series) -> bool:
    return isinstance(series.dtype, pl.List | pl.Array)


def _is_label(series: pl.Series) -> bool:
    if series.dtype.is_float():
        return bool((series.drop_nulls() == series.drop_nulls().round(0)).all())
    return series.dtype.is_integer() or series.dtype in (pl.String, pl.Categorical, pl.Enum)


def _word(key: str) -> str:
    return {"obs": "observation", "next_obs": "next observation"}.get(key, key)


def _names(several: Sequence[str]) -> str:
    return repr(several[0]) if len(several) == 1 else f"{several[0]!r} to {several[-1]!r}"
