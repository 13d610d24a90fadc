"""True values of worlds, the command line on small files, and trials of the experiments."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd
from benchmarks.fingerprints.digest import Case
from benchmarks.fingerprints.results import plain
from benchmarks.fingerprints.worlds import ARMS


def _truth(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    made = bd.simulation.make_world(name, **options)
    logs = bd.simulate(made.env, made.behavior, 6, 8, rng_key=jax.random.key(5))
    frame = logs.to_dataframe()
    found: dict[str, Any] = {column: frame[column].to_list() for column in frame.columns}
    found = {name: np.array(values) for name, values in found.items()}
    found["gamma"] = made.gamma_hint
    if name != "cartpole":
        policy = next(iter(made.candidates.values()))
        found["value"] = float(bd.true_value(made.env, policy, 0.9))
        found["ratio"] = np.asarray(bd.true_ratio(made.env, policy, made.behavior, 0.9))
    return found


def _command(*words: Any) -> int:
    from bayesdice_ppl import cli

    before = sys.argv
    sys.argv = ["bayesdice", *(str(word) for word in words)]
    code: Any = 0
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            cli.main()
    except SystemExit as stopped:
        code = stopped.code or 0
    finally:
        sys.argv = before
    return int(code)


def _commands() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        return _in_folder(Path(name))


def _in_folder(folder: Path) -> dict[str, Any]:
    run = _command
    logs, candidates = folder / "logs.parquet", folder / "candidates.parquet"
    codes = {
        "simulate": run(
            *("simulate", "riverswim", "-o", logs, "--candidates", candidates),
            *("--episodes", 15, "--steps", 20, "--seed", 3),
        )
    }
    both = (logs, "-p", candidates, "--gamma", 0.9)
    again = ("--seed", 4, "--draws", 300)
    fast = ("--inference", "exact", *again)
    codes |= {
        "check": run("check", *both),
        "check_logs": run("check", logs, "--gamma", 0.9),
        "check_gamma": run("check", logs, "--gamma", 1.5),
        "methods": run("methods"),
        "methods_one": run("methods", "wpdis:bca"),
        "methods_none": run("methods", "nothing"),
        "select": run("select", *both, *fast, "-o", folder / "exact", "-k", 2),
        "select_again": run("select", *both, *fast, "-o", folder / "exact"),
        "select_svi": run("select", *both, *again, "-o", folder / "svi"),
        "select_safe": run(
            *("select", *both, *fast, "-o", folder / "safe", "--score", "safe_improvement"),
            *("--baseline", "logged", "--xi", 0.2),
        ),
        "select_settings": run(
            *("select", *both, *fast, "-o", folder / "settings", "--penalty", "squared"),
            *("--statistic", "cvar(0.3),mean", "--independent", "--cluster", "episode"),
        ),
        "select_refused": run("select", *both, *fast, "-o", folder / "no", "--score", "nothing"),
        "select_method": run(
            "select", *both, "-o", folder / "wpdis", "--method", "wpdis:bca", "--seed", 4
        ),
        "select_drawn": run(
            "select", *both, "-o", folder / "dirichlet", "--method", "dirichlet", *again
        ),
        "fit": run("fit", *both, *fast, "-o", folder / "fit.nc", "--include-logged"),
        "rank": run(
            *("rank", folder / "fit.nc", "--score", "precision", "-k", 2, "--information"),
            *("--risk", "mean", "-o", folder / "rank.json"),
        ),
        "rank_tail": run(
            *("rank", folder / "fit.nc", "--risk", "cvar(0.2)", "-o", folder / "tail.json"),
            *("--costs", "alpha_0.75=2", "--budget", 2, "--must-exclude", "logged"),
        ),
        "rank_nothing": run("rank", folder / "nothing.nc"),
    }
    found: dict[str, Any] = {"codes": codes}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".json":
            ranking = plain(json.loads(path.read_text("utf-8")))
            if path.parent.name != "exact":
                ranking.pop("support", None)
            found[str(path.relative_to(folder))] = ranking
        elif path.suffix == ".nc":
            belief = bd.load_belief(path)
            found[str(path.relative_to(folder))] = {
                "value": belief["posterior/value"].to_numpy(),
                "groups": sorted(belief.children),
            }
        elif path.is_file():
            found[str(path.relative_to(folder))] = "a file"
    return found


def _experiment(name: str, place: str) -> dict[str, Any]:
    from bayesdice_ppl.experiments import Cell, deal, make_experiment

    made = make_experiment(name, quick=True, trials=2)
    cell = Cell(place, 0.5, 20, 1, 2)
    rows = [(number, *row) for number in range(2) for row in made.rows(deal(cell, number, 0))]
    frame = pl.DataFrame(rows, schema={"trial": pl.Int64, **made.schema}, orient="row")
    frame = frame.with_columns(
        world=pl.lit(place), behavior=pl.lit(0.5), episodes=pl.lit(20), steps=pl.lit(1)
    )
    found: dict[str, Any] = {"rows": _columns(frame.drop("error", strict=False))}
    with suppress(pl.exceptions.PolarsError):
        found["summary"] = _columns(made.summarize(frame))
    return found


def _columns(frame: pl.DataFrame) -> dict[str, np.ndarray]:
    return {
        column.name: np.array(column.cast(pl.Float64) if column.dtype.is_float() else column)
        for column in frame
    }


def cases() -> dict[str, Case]:
    """Give the worlds, the command line and the experiments."""
    worlds = {
        "bandit": {},
        "cartpole": {},
        "contextualbandit": {"arms": ARMS},
        "frozenlake": {},
        "garnet": {"n_states": 6, "n_actions": 2, "world_seed": 4},
        "riverswim": {},
    }
    return {
        **{
            f"world/{name}": Case("exact", partial(_truth, name, options))
            for name, options in worlds.items()
        },
        "command_line": Case("svi", _commands),
        "experiment/ci": Case("exact", partial(_experiment, "ci", "bandit")),
        "experiment/ablation": Case("exact", partial(_experiment, "ablation", "bandit-prior")),
        "experiment/selection": Case("network", partial(_experiment, "selection", "bandit")),
    }
