import json
import subprocess
import sys

import h5py
import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import cli
from tests.marks import slow

GOOD_LOGS = pl.DataFrame(
    {
        "episode_id": [0, 0, 1, 1, 2, 2, 3, 3],
        "step": [0, 1] * 4,
        "state": [0, 1, 0, 1, 0, 1, 0, 0],
        "action": [0, 1, 1, 0, 0, 0, 1, 1],
        "reward": [0.0, 1.0, 0.0, 0.5, 1.0, 0.0, 0.0, 1.0],
        "next_state": [1, 0, 1, 0, 1, 1, 0, 1],
    }
)
GOOD_POLICIES = pl.DataFrame(
    {
        "policy": ["a"] * 4 + ["b"] * 4,
        "state": [0, 0, 1, 1] * 2,
        "action": [0, 1] * 4,
        "prob": [0.5, 0.5, 0.2, 0.8, 0.9, 0.1, 1.0, 0.0],
    }
)


@pytest.fixture
def place(tmp_path):
    GOOD_LOGS.write_csv(tmp_path / "logs.csv")
    GOOD_POLICIES.write_csv(tmp_path / "candidates.csv")
    return tmp_path


def select_arguments(folder, logs="logs.csv", policies="candidates.csv", *more):
    return [
        "select",
        folder / logs,
        "--policies",
        folder / policies,
        "--gamma",
        "0.5",
        "-o",
        folder / "out",
        *more,
    ]


def changed(frame, column, row, value):
    values = frame[column].to_list()
    values[row] = value
    return frame.with_columns(pl.Series(column, values, strict=False))


def test_good_input_leaves_its_three_files_and_exits_0(place, run):
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=(160, 3))
    big = pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(160), 2),
            "step": np.tile([0, 1], 160),
            "state": state[:, :2].ravel(),
            "action": rng.integers(2, size=320),
            "reward": rng.integers(3, size=320) / 2.0,
            "next_state": state[:, 1:].ravel(),
        }
    )
    big.write_csv(place / "logs.csv")
    code, out = run(*select_arguments(place), "--seed", "3", "--inference", "auto")
    assert code == 0, out.err
    assert "Inference: exact (the posterior has a closed form)." in out.out.replace("\n", " ")
    assert sorted(p.name for p in (place / "out").iterdir()) == [
        "belief.nc",
        "forest.png",
        "ranking.json",
    ]
    ranking = json.loads((place / "out" / "ranking.json").read_text())
    assert ranking["seed"] == 3
    assert sorted(ranking["order"]) == ["a", "b"]
    assert ranking["settings"]["gamma"] == 0.5
    assert "Try " + ranking["order"][0] in out.out.replace("\n", " ")

    code, again = run(
        "rank", place / "out" / "belief.nc", "--score accuracy -k 2 -o", place / "accuracy.json"
    )
    assert code == 0, again.err
    reranked = json.loads((place / "accuracy.json").read_text())
    assert reranked["score"] == "accuracy@2"
    assert reranked["seed"] == 3
    means = {row["policy"]: row["mean"] for row in ranking["table"]}
    assert means == {row["policy"]: row["mean"] for row in reranked["table"]}


def test_thin_support_exits_3_with_the_files_and_the_reason(place, run):
    code, out = run(*select_arguments(place), "--seed", "1")
    assert code == 3
    assert "effective transitions" in out.out
    assert "No recommendation" in out.out
    assert len(list((place / "out").iterdir())) == 3


LOG_FAULTS = {
    "missing column": (GOOD_LOGS.drop("reward"), ["missing column 'reward'", "--columns"]),
    "reward missing": (changed(GOOD_LOGS, "reward", 2, None), ["row 3", "'reward'"]),
    "reward not finite": (changed(GOOD_LOGS, "reward", 4, float("inf")), ["row 5", "'reward'"]),
    "reward NaN": (changed(GOOD_LOGS, "reward", 4, float("nan")), ["row 5", "'reward'"]),
    "text in reward": (
        changed(GOOD_LOGS.with_columns(pl.col("reward").cast(pl.String)), "reward", 5, "high"),
        ["row 6", "'reward'", "high"],
    ),
    "unknown action": (changed(GOOD_LOGS, "action", 3, 7), ["row 4", "found 7", "--actions"]),
    "unsorted steps": (changed(GOOD_LOGS, "step", 0, 5), ["row 2", "'step'"]),
    "repeated step": (changed(GOOD_LOGS, "step", 1, 0), ["row 2", "'step'", "keep each step once"]),
    "step after the end": (
        GOOD_LOGS.with_columns(pl.Series("terminated", [True] + [False] * 7)),
        ["row 2", "terminated"],
    ),
    "no rows": (GOOD_LOGS.clear(), ["expected at least two rows, found none"]),
    "one row": (GOOD_LOGS.head(1), ["expected at least two rows, found one"]),
    "fractional state": (
        changed(GOOD_LOGS.with_columns(pl.col("state").cast(pl.Float64)), "state", 6, 0.5),
        ["row 7", "'state'"],
    ),
    "end under another name": (
        GOOD_LOGS.with_columns(pl.Series("done", [0, 1] * 4)),
        ["'done' looks like 'terminated'", "--columns terminated=done", "--ignore done"],
    ),
    "flag that is none": (
        GOOD_LOGS.with_columns(pl.Series("terminated", ["no"] * 8)),
        ["row 1", "'terminated'"],
    ),
    "successors that disagree": (
        changed(GOOD_LOGS, "next_state", 0, 0),
        ["row 1", "'next_state'"],
    ),
}


@pytest.mark.parametrize("fault", LOG_FAULTS)
def test_a_bad_log_exits_2_and_names_the_place(fault, place, run):
    frame, words = LOG_FAULTS[fault]
    frame.write_csv(place / "logs.csv")
    code, out = run(*select_arguments(place))
    assert code == 2
    assert out.err.startswith("Error: ")
    assert "Traceback" not in out.err
    for word in words:
        assert word in out.err
    assert not (place / "out").exists()
    assert sorted(p.name for p in place.iterdir()) == ["candidates.csv", "logs.csv"]


POLICY_FAULTS = {
    "probability above 1": (changed(GOOD_POLICIES, "prob", 1, 1.5), ["row 2", "'prob'", "1.5"]),
    "sum is not 1": (changed(GOOD_POLICIES, "prob", 0, 0.4), ["'a'", "state 0", "0.9"]),
    "state not covered": (
        GOOD_POLICIES.filter((pl.col("policy") == "a") | (pl.col("state") == 0)),
        ["'b'", "state 1"],
    ),
    "duplicate": (pl.concat([GOOD_POLICIES, GOOD_POLICIES.head(1)]), ["row 9", "second time"]),
    "labels of another kind": (
        GOOD_POLICIES.with_columns(("s" + pl.col("state").cast(pl.String)).alias("state")),
        ["strings", "integers"],
    ),
}


@pytest.mark.parametrize("fault", POLICY_FAULTS)
def test_bad_candidates_exit_2_and_name_the_place(fault, place, run):
    frame, words = POLICY_FAULTS[fault]
    frame.write_csv(place / "candidates.csv")
    code, out = run(*select_arguments(place))
    assert code == 2
    for word in words:
        assert word in out.err
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--score", "luck"], ["score: expected one of", "luck", "regret"]),
        (["-k", "9"], ["k", "9", "2"]),
        (["--columns", "action"], ["--columns", "action"]),
        (["--columns", "action=nothing"], ["nothing"]),
        (["--columns", "item=action"], ["columns: expected one of", "'item'"]),
        (["--actions", "0"], ["--actions", "row 2"]),
        (["--ignore", "nothing"], ["--ignore", "'nothing'"]),
        (["--inference", "guess"], ["inference", "guess", "svi"]),
        (["--penalty", "cubic"], ["penalty", "cubic"]),
        (["--preset", "paper", "--joint"], ["preset", "joint"]),
        (["--penalty", "huber"], ["penalty", "number"]),
        (["--surrogate", "chebyshev"], ["surrogate", "cvar"]),
        (["--link", "logit"], ["link", "softplus"]),
        (["--inference", "exact", "--surrogate", "cvar"], ["no closed form", "nuts"]),
        (["--on-termination", "explode"], ["on_termination", "explode"]),
    ],
)
def test_bad_settings_exit_2_and_say_what_was_expected(more, words, place, run):
    code, out = run(*select_arguments(place), *more)
    assert code == 2
    for word in words:
        assert word in out.err
    assert not (place / "out").exists()


def test_gamma_out_of_range_exits_2(place, run):
    arguments = select_arguments(place)
    arguments[arguments.index("0.5")] = "1.5"
    code, out = run(*arguments)
    assert code == 2
    assert "gamma" in out.err
    assert "1.5" in out.err


def test_missing_and_empty_files_exit_2(place, run):
    code, out = run(*select_arguments(place, "none.csv"))
    assert code == 2
    assert "none.csv" in out.err
    (place / "empty.csv").touch()
    code, out = run(*select_arguments(place, "empty.csv"))
    assert code == 2
    assert "empty" in out.err
    (place / "log.xlsx").write_text("x")
    code, out = run(*select_arguments(place, "log.xlsx"))
    assert code == 2
    assert ".parquet" in out.err
    (place / "bad.parquet").write_text("not parquet")
    code, out = run(*select_arguments(place, "bad.parquet"))
    assert code == 2
    assert "Parquet" in out.err


def test_a_folder_that_holds_something_is_not_touched(place, run):
    (place / "out").mkdir()
    (place / "out" / "mine.txt").write_text("keep")
    code, out = run(*select_arguments(place))
    assert code == 2
    assert "--overwrite" in out.err
    assert [p.name for p in (place / "out").iterdir()] == ["mine.txt"]


def test_an_interrupted_run_leaves_nothing_behind(place, monkeypatch):
    from bayesdice_ppl import plots

    def fail(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(plots, "forest", fail)
    monkeypatch.setattr(
        sys, "argv", ["bayesdice", *map(str, select_arguments(place)), "--inference", "exact"]
    )
    with pytest.raises((KeyboardInterrupt, SystemExit)) as stopped:
        cli.main()
    assert stopped.type is KeyboardInterrupt or stopped.value.code != 0
    assert sorted(p.name for p in place.iterdir()) == ["candidates.csv", "logs.csv"]


@pytest.mark.slow
def test_simulated_files_are_taken_as_they_are(tmp_path, run):
    logs, candidates = tmp_path / "logs.parquet", tmp_path / "candidates.parquet"
    simulate = ["simulate", "frozenlake", "--alpha", "0", "--episodes", "20", "--steps", "50"]
    code, out = run(*simulate, "--seed", "1", "-o", logs, "--candidates", candidates)
    assert code == 0, out.err
    assert "0.010525" in out.out  # the logging policy's true value, solved exactly
    code, out = run("check", logs, "--policies", candidates, "--gamma", "0.99")
    assert code == 0, out.err
    assert "can be used" in out.out
    code, out = run(
        "fit",
        logs,
        "--policies",
        candidates,
        "--gamma 0.99 -o",
        tmp_path / "b.nc",
        "--inference exact",
    )
    assert code == 0, out.err
    assert "Seed" in out.out

    from bayesdice_ppl import load_belief

    belief = load_belief(tmp_path / "b.nc")
    assert belief["posterior/value"].shape == (1, 4000, 5)
    assert np.isfinite(belief["posterior/value"].values).all()


def test_the_module_runs_as_a_command_and_bad_input_gives_no_traceback(tmp_path, run):
    done = subprocess.run(
        [sys.executable, "-m", "bayesdice_ppl", "rank", str(tmp_path / "none.nc")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "none.nc" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("world", "gamma"),
    [
        ("bandit", "0"),
        slow("contextualbandit", "0"),
        slow("garnet", "0.95"),
        slow("riverswim", "0.99"),
    ],
)
def test_simulated_files_of_every_small_world_can_be_selected_from(world, gamma, tmp_path, run):
    logs, candidates = tmp_path / "logs.parquet", tmp_path / "candidates.parquet"
    code, out = run(
        "simulate", world, "--episodes 200 --steps 20 --seed 1 -o", logs, "--candidates", candidates
    )
    assert code == 0, out.err
    assert f"--gamma {gamma} " in out.out
    code, out = run(
        "select",
        logs,
        "--policies",
        candidates,
        "--gamma",
        gamma,
        "-o",
        tmp_path / "out",
        "--inference exact --seed 1",
    )
    assert code in (0, 3), out.err
    assert (tmp_path / "out" / "ranking.json").exists()


@pytest.mark.slow
def test_simulated_taxi_files_can_be_checked(tmp_path, run):
    logs, candidates = tmp_path / "logs.parquet", tmp_path / "candidates.parquet"
    code, out = run(
        "simulate taxi --episodes 100 --steps 50 --seed 1 -o", logs, "--candidates", candidates
    )
    assert code == 0, out.err
    assert "-0.11616" in out.out  # alpha = 0.95, solved exactly
    code, out = run("check", logs, "--policies", candidates, "--gamma", "0.99")
    assert code in (0, 3), out.err
    assert "unlogged steps" in out.out


@pytest.mark.parametrize(
    ("world", "said"),
    [
        # Its true values are simulated, which takes a minute.
        pytest.param("cartpole", "standard error", marks=pytest.mark.slow),
        ("reacher", "-0.1"),
    ],
)
def test_worlds_of_vectors_give_logs_and_true_values(world, said, tmp_path, run):
    logs = tmp_path / "logs.parquet"
    simulate = ["simulate", world, "--alpha", "0.5", "--episodes", "4", "--steps", "30"]
    code, out = run(*simulate, "--seed", "1", "-o", logs)
    assert code == 0, out.err
    assert said in out.out
    code, out = run("check", logs, "--gamma", "0.99")
    assert code == 0, out.err
    assert "dimensional observations" in out.out
    code, out = run(
        *simulate, "-o", tmp_path / "more.parquet", "--candidates", tmp_path / "c.parquet"
    )
    assert code == 2
    assert "functions of vectors" in out.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs.parquet"]


def test_another_penalty_surrogate_and_link_reach_the_belief(place, run):
    code, out = run(
        *select_arguments(place),
        "--penalty",
        "huber(0.5)",
        "--surrogate",
        "cvar(0.2)",
        "--link",
        "softplus",
    )
    assert code in (0, 3), out.err
    written = json.loads((place / "out" / "ranking.json").read_text())["settings"]
    assert [written[name] for name in ("penalty", "surrogate", "link")] == [
        "huber(0.5)",
        "cvar(0.2)",
        "softplus",
    ]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A belief with the logging policy, fitted once by the command."""
    folder = tmp_path_factory.mktemp("fitted")
    GOOD_LOGS.write_csv(folder / "logs.csv")
    GOOD_POLICIES.write_csv(folder / "candidates.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys,
            "argv",
            [
                *["bayesdice", "fit", str(folder / "logs.csv")],
                *["--policies", str(folder / "candidates.csv"), "--gamma", "0.5", "--seed", "3"],
                *["--inference", "exact", "--include-logged", "-o", str(folder / "belief.nc")],
            ],
        )
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    assert not stopped.value.code
    return folder / "belief.nc"


def test_the_logging_policy_is_the_baseline_of_a_safe_improvement(fitted, run):
    written = fitted.parent / "safe.json"
    arguments = ["--score", "safe_improvement", "--baseline", "logged", "--xi", "0.01"]
    code, out = run("rank", fitted, *arguments, "-o", written)
    assert code in (0, 3), out.err
    ranking = json.loads(written.read_text())
    assert sorted(ranking["order"]) == ["a", "b", "logged"]
    assert ranking["launch"] == ["logged"]
    assert ranking["score"] == "safe improvement on logged, xi = 0.01"
    assert "worse than logged with a probability below 0.01" in " ".join(out.out.split())


def test_rules_of_a_launch_and_risks_reach_the_ranking(fitted, run):
    costs = fitted.parent / "costs.csv"
    pl.DataFrame({"policy": ["a", "b", "logged"], "cost": [3.0, 1.0, 0.5]}).write_csv(costs)
    for text in (costs, "a=3,b=1,logged=0.5"):
        written = fitted.parent / "ranking.json"
        code, out = run(
            *["rank", fitted, "-k", "2", "--costs", text, "--budget", "1.5", "--risk", "cvar(0.2)"],
            *["--must-include", "b", "-o", written, "--overwrite"],
        )
        assert code in (0, 3), out.err
        ranking = json.loads(written.read_text())
        assert sorted(ranking["launch"]) == ["b", "logged"]
        assert ranking["score"] == "cvar(0.2) of regret@2"
    code, out = run("rank", fitted, "--must-exclude", "logged", "--information")
    assert code in (0, 3), out.err
    assert "Loss saved by knowing one value" in " ".join(out.out.split())


def test_information_has_the_pairs_that_the_log_does_not(tmp_path, run):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"state": 0, "action": rng.integers(3, size=60), "reward": rng.random(60)})
    policies = {
        "known": bd.TabularPolicy([[0.4, 0.3, 0.3, 0.0]]),
        "bold": bd.TabularPolicy([[0.0, 0.0, 0.0, 1.0]]),
    }
    logs = bd.Logs.from_dataframe(frame, actions=[0, 1, 2, 3])
    belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(0), draws=400)
    bd.save_belief(belief, tmp_path / "belief.nc")
    code, out = run("rank", tmp_path / "belief.nc", "--information", "-o", tmp_path / "rank.json")
    assert code in (0, 3), out.err
    found = json.loads((tmp_path / "rank.json").read_text())["information"]["trying"]
    exact = bd.value_of_trying(belief, bd.scores.regret(k=1))
    assert [row["value_of_trying"] for row in found] == exact.table["value_of_trying"].to_list()
    assert [(row["state"], row["action"], row["taken_by"]) for row in found] == [("0", "3", "bold")]
    assert exact.answer in " ".join(out.out.split())


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file["posterior/value"].write_direct(np.full((1, 4000, 3), 1e300)), "1e+300"),
        (lambda file: file.attrs.update(settings="[" * 50_000), "attribute settings"),
        (lambda file: file["posterior/value"].attrs.update(scale_factor="half"), "damaged"),
        (lambda file: file.__setitem__("posterior/x", file["/"]), "leads back to itself"),
    ],
    ids=["large", "deep", "scale", "loop"],
)
def test_a_damaged_belief_exits_2_in_a_sentence(fitted, damage, words, tmp_path, run):
    path = tmp_path / "belief.nc"
    path.write_bytes(fitted.read_bytes())
    with h5py.File(path, "a") as file:
        damage(file)
    code, out = run("rank", path)
    assert code == 2
    assert out.err.startswith("Error: ")
    assert words in out.err
    assert "Traceback" not in out.err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--costs", "a=3"], ["budget: expected it beside costs"]),
        (["--costs", "a", "--budget", "1"], ["--costs", "name=cost"]),
        (["--costs", "a=x,b=1,logged=1", "--budget", "1"], ["a number as the cost of 'a'"]),
        (["--costs", "a=1,a=2", "--budget", "1"], ["'a' is given twice"]),
        (["--costs", "nowhere.csv", "--budget", "1"], ["--costs: nowhere.csv: no such file"]),
        (["--costs", "a=3,b=2,logged=2", "--budget", "1"], ["the cost of the cheapest"]),
        (["--must-include", "z"], ["must_include: expected names", "found 'z'"]),
        (["--must-exclude", "a,,b"], ["--must-exclude", "names between commas"]),
        (["--risk", "cvar"], ["--risk", "cvar(alpha)"]),
        (["--risk", "cvar(2)"], ["alpha: expected a number in (0, 1]"]),
        (["--xi", "0.1"], ["xi: expected none for score regret"]),
        (["--score", "safe_improvement"], ["baseline: expected one for score safe_improvement"]),
        (
            ["--score", "safe_improvement", "--baseline", "z"],
            ["baseline: expected one of the belief", "found 'z'"],
        ),
        (["--score", "kendall", "--must-include", "a"], ["a score that says how many go live"]),
    ],
)
def test_rules_that_cannot_be_read_or_met_exit_2(fitted, more, words, run):
    code, out = run("rank", fitted, *more)
    assert code == 2
    for word in words:
        assert word in out.err


@pytest.mark.parametrize(
    "more",
    [
        ["--score", "safe_improvement", "--baseline", "nobody"],
        ["--must-include", "nobody"],
        ["--costs", "a=1,b=1"],
        ["--score", "kendall", "--must-include", "a"],
    ],
)
def test_what_cannot_be_ranked_is_refused_before_the_fit(place, more, monkeypatch, run):
    def never(*_, **__):
        raise AssertionError("a belief was fitted")

    monkeypatch.setattr("bayesdice_ppl.fitting.fit_flat", never)
    arguments = select_arguments(place, "logs.csv", "candidates.csv", *more)
    code, out = run(*arguments)
    assert code == 2, out.err
    assert not (place / "out").exists()
