"""What a run of exploration leaves behind: its log, its rounds as a table, and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import polars as pl

from bayesdice_ppl.exploration.loop import Exploration
from bayesdice_ppl.outputs import staged_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
class WrittenExploration(NamedTuple):
    """The files of a run.

    Attributes
    ----------
    logs, rounds, policy, figure
        The log, the table of rounds, the last policy, and the plot.
    """

    logs: Path
    rounds: Path
    policy: Path
    figure: Path


def write_results(done: Exploration, folder: Path) -> WrittenExploration:
    """Write log, rounds, last policy and figure of a run.

    Parameters
    ----------
    done
        The run.
    folder
        Where to; it has to exist. Files of these names are replaced.

    Raises
    ------
    OutputError
        A file cannot be written.
    """
    names = ("logs.parquet", "rounds.csv", "policy.csv", "regret.png")
    written = WrittenExploration(*(folder / name for name in names))
    with staged_file(written.logs) as scratch:
        done.logs.to_dataframe().write_parquet(scratch)
    with staged_file(written.rounds) as scratch:
        done.rounds.drop("seconds").write_csv(scratch)
    with staged_file(written.policy) as scratch:
        last_policy(done).write_csv(scratch)
    with staged_file(written.figure) as scratch:
        draw_run(done).savefig(scratch, dpi=120)
    return written


def last_policy(done: Exploration) -> pl.DataFrame:
    """The last policy as candidates are read: by state or, where states are vectors, by row.

    Parameters
    ----------
    done
        The run.
    """
    policy, logs = done.policies[-1], done.logs
    if isinstance(policy, np.ndarray):
        return policy_table(policy)
    found = policy.probs(logs.state_labels)
    if logs.state_labels.ndim == 1:
        table = policy_table(found)
        return table.with_columns(state=pl.Series(logs.state_labels[table["state"]]))
    return policy_table(found[logs.state]).rename({"state": "row"}).with_columns(pl.col("row") + 1)


def policy_table(policy: np.ndarray) -> pl.DataFrame:
    """A policy as candidates are read: ``policy``, ``state``, ``action``, ``prob``.

    Parameters
    ----------
    policy
        Probabilities, shape (S, A).
    """
    state, action = np.nonzero(policy)
    return pl.DataFrame(
        {"policy": "explored", "state": state, "action": action, "prob": policy[state, action]}
    )


def draw_run(done: Exploration) -> Figure:
    """Regret by round where it is known, what was earned, and what was believed of each policy.

    Parameters
    ----------
    done
        The run.
    """
    from matplotlib.figure import Figure

    known = done.best is not None
    steps = done.logs.n_transitions // len(done.rounds)
    figure = Figure(figsize=(9.0 if known else 4.8, 3.4), layout="constrained")
    panels = figure.subplots(1, 2 if known else 1, squeeze=False)[0]
    rounds = done.rounds
    at = rounds["round"].to_numpy()
    last = panels[-1]
    last.plot(at, rounds["reward"], lw=0.8, color="0.6", label="earned in the round")
    mean = rounds["mean"].cast(pl.Float64).to_numpy()
    sd = rounds["sd"].cast(pl.Float64).to_numpy()
    if np.isfinite(mean).any():
        (line,) = last.plot(at, mean, label="believed, with 1 sd")
        last.fill_between(at, mean - sd, mean + sd, color=line.get_color(), alpha=0.2)
    if known:
        last.plot(at, rounds["value"], color="black", label="true value")
        last.axhline(done.best, color="black", ls=":", label="best policy")
        panels[0].plot(at, rounds["regret"])
        panels[0].set(xlabel="round", ylabel="regret (reward)")
    else:
        last.set(title="best value not known: no regret")
    last.set(xlabel=f"round of {steps:,} steps", ylabel="value of the policy (reward per step)")
    last.legend(fontsize=8)
    return figure
