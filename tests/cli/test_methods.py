"""`bayesdice select --method` and `bayesdice methods`: files, exit codes and refusals."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.registry import METHODS
from tests.marks import slow

QUICK = {
    "fqe_mlp": ["--set", "refits=4", "--set", "steps=5", "--set", "width=8"],
    "bdqn": ["--set", "refits=4", "--set", "steps=5", "--draws", "50"],
}
REFUSED = {
    ("bandit", "mwl_kernel"): "vectors",
    ("frozenlake", "mwl_kernel"): "vectors",
    ("frozenlake", "beta"): "is for bandits",
}
GAMMA = {"bandit": "0", "frozenlake": "0.9"}
SHAPE = {"bandit": (200, 1), "frozenlake": (60, 30)}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worlds")
    for name, (episodes, steps) in SHAPE.items():
        world = bd.simulation.make_world(name, alpha=0.2)
        logs = bd.simulate(world.env, world.behavior, episodes, steps, rng_key=jax.random.key(2))
        logs.to_dataframe().write_parquet(folder / f"{name}.parquet")
        world.candidates.to_dataframe().write_parquet(folder / f"{name}_candidates.parquet")
    return folder


def arguments(files, world, output, *more):
    return [
        *("select", files / f"{world}.parquet", "-p", files / f"{world}_candidates.parquet"),
        *("--gamma", GAMMA[world], "-o", output, "--seed", "4", *more),
    ]


def read_files(files, world):
    logs = bd.read_logs(files / f"{world}.parquet")
    return logs, bd.read_policies(files / f"{world}_candidates.parquet")


@pytest.mark.parametrize(
    ("world", "name"),
    # A network learns for seconds; that it is reached is shown on one world.
    [("bandit", name) for name in METHODS]
    + [slow("frozenlake", name) if name in QUICK else ("frozenlake", name) for name in METHODS],
)
def test_every_method_runs_by_its_name_or_is_refused(name, world, files, tmp_path, run):
    output = tmp_path / "out"
    more = ["--method", name, *QUICK.get(name, [])]
    code, out = run(*arguments(files, world, output, *more))
    refused = REFUSED.get((world, name))
    if refused is not None:
        assert code == 2
        assert refused in out.err
        assert "Traceback" not in out.err
        assert not output.exists()
        return
    gives = bd.baselines.make(name).gives
    ranking = json.loads((output / "ranking.json").read_text())
    thin = gives == "draws" and not ranking["recommended"]
    thin = thin or any(row.get("thin", False) for row in ranking["table"])
    assert code == (3 if thin else 0), out.err
    _, candidates = read_files(files, world)
    assert sorted(ranking["order"]) == sorted(candidates)
    assert (ranking["method"], ranking["seed"]) == (name, 4)
    assert ranking["settings"]["gamma"] == float(GAMMA[world])
    assert "bayesdice-ppl" in ranking["versions"]
    assert "Seed 4." in out.out
    assert sorted(path.name for path in output.iterdir()) == (
        ["belief.nc", "forest.png", "ranking.json"]
        if gives == "draws"
        else ["estimates.csv", "estimates.png", "ranking.json"]
    )


@pytest.mark.parametrize("by", ["value", "lower", "upper"])
def test_intervals_are_put_in_order_by_what_is_asked(by, files, tmp_path, run):
    more = ["--method", "wis:bca", "--by", by, "--level", "0.8"]
    code, out = run(*arguments(files, "frozenlake", tmp_path / "out", *more))
    # Of the candidate farthest from the log fewer than ten effective episodes are left.
    assert code == 3, out.err
    logs, candidates = read_files(files, "frozenlake")
    method = bd.baselines.importance_sampling("trajectory", interval="bca")
    key = jax.random.key(4)
    rows = []
    for name, policy in candidates.items():
        found = method.estimate(logs, policy, gamma=0.9, level=0.8, rng_key=key)
        rows.append((name, found.value, found.lower, found.upper))
    rows.sort(key=lambda row: -row[1 + ["value", "lower", "upper"].index(by)])
    ranking = json.loads((tmp_path / "out" / "ranking.json").read_text())
    assert ranking["order"] == [row[0] for row in rows]
    assert (ranking["by"], ranking["settings"]["level"]) == (by, 0.8)
    table = pl.read_csv(tmp_path / "out" / "estimates.csv")
    assert table["policy"].to_list() == ranking["order"]
    np.testing.assert_allclose(table.select("value", "lower", "upper"), [r[1:] for r in rows])
    assert ranking["table"] == table.to_dicts()
    assert "80 % intervals" in out.out
    assert "gives no belief" in out.out


def test_draws_become_a_belief_that_is_ranked_and_ranked_again(files, tmp_path, run):
    output = tmp_path / "out"
    more = ["--method", "beta", "--draws", "500", "--score", "precision", "-k", "2"]
    code, out = run(*arguments(files, "bandit", output, *more))
    assert code in (0, 3), out.err
    logs, candidates = read_files(files, "bandit")
    belief = bd.load_belief(output / "belief.nc")
    method = bd.baselines.beta_bandit(draws=500)
    drawn = [
        method.estimate(logs, policy, gamma=0.0, rng_key=jax.random.key(4)).draws
        for policy in candidates.values()
    ]
    np.testing.assert_array_equal(belief["posterior/value"].to_numpy()[0], np.stack(drawn, axis=1))
    chosen = bd.select(belief, bd.scores.precision(k=2))
    ranking = json.loads((output / "ranking.json").read_text())
    assert ranking["order"] == chosen.order
    assert ranking["expected_loss"] == chosen.expected_loss
    assert code == (0 if chosen.recommended else 3)
    assert not any("was not checked" in note for note in ranking["notes"])
    code, out = run("rank", output / "belief.nc", "--score", "kendall")
    assert code in (0, 3), out.err
    code, out = run(
        *arguments(files, "bandit", tmp_path / "cheap", "--method", "beta", "--draws", "50"),
        *["--must-exclude", ranking["order"][0]],
    )
    assert code in (0, 3), out.err
    cheap = json.loads((tmp_path / "cheap" / "ranking.json").read_text())
    assert ranking["order"][0] not in cheap["launch"]


def test_a_belief_that_the_log_does_not_bear_exits_3(tmp_path, run):
    pl.DataFrame({"state": [0] * 9, "action": [0] * 8 + [1], "reward": [0.0, 1.0, 0.5] * 3}).filter(
        pl.col("reward") != 0.5
    ).write_csv(tmp_path / "few.csv")
    pl.DataFrame(
        {
            "policy": ["a", "a", "b", "b"],
            "state": [0] * 4,
            "action": [0, 1] * 2,
            "prob": [0.1, 0.9, 1.0, 0.0],
        }
    ).write_csv(tmp_path / "policies.csv")
    code, out = run(
        *["select", tmp_path / "few.csv", "-p", tmp_path / "policies.csv", "--gamma", "0"],
        *["--method", "beta", "-o", tmp_path / "out", "--actions", "0,1"],
    )
    assert code == 3, out.err
    assert "No recommendation" in " ".join(out.out.split())
    assert (tmp_path / "out" / "belief.nc").exists()


def test_a_candidate_that_the_log_says_nothing_of_is_warned_about(tmp_path, run):
    # Every reward is a cost, so that an estimate of 0 for want of data is the highest.
    pl.DataFrame(
        {"state": [0] * 120, "action": [0, 1] * 60, "reward": [-1.0, -2.0, -3.0] * 40}
    ).write_csv(tmp_path / "log.csv")
    pl.DataFrame(
        {"policy": ["known", "[b]new[/b]"], "state": [0] * 2, "action": [0, 2], "prob": [1.0] * 2}
    ).write_csv(tmp_path / "policies.csv")
    code, out = run(
        *["select", tmp_path / "log.csv", "-p", tmp_path / "policies.csv", "--gamma", "0"],
        *["--method", "lstdq", "-o", tmp_path / "out", "--actions", "0,1,2"],
    )
    assert code == 3, out.err
    said = " ".join(out.out.split())
    assert "Warning: [b]new[/b]: reaches states in which none of its actions were logged" in said
    assert "Warning: known" not in said
    assert "this is no recommendation" in said
    ranking = json.loads((tmp_path / "out" / "ranking.json").read_text())
    assert {each["policy"] for each in ranking["support_warnings"]} == {"[b]new[/b]"}
    assert any(each["abstain"] for each in ranking["support_warnings"])
    # The candidate is marked in the table that is printed, and in both files.
    assert "[b]new[/b] ? " in out.out
    assert "known ?" not in out.out
    assert "Do not trust the numbers" in said
    assert "says too little about [b]new[/b]: this is no recommendation" in said
    table = pl.read_csv(tmp_path / "out" / "estimates.csv")
    marks = dict(table.select("policy", "thin").iter_rows())
    assert marks == {"known": False, "[b]new[/b]": True}
    assert marks == {row["policy"]: row["thin"] for row in ranking["table"]}


def test_an_estimate_that_rests_on_one_episode_is_no_recommendation(tmp_path, run):
    # Forty coins for each of sixty episodes: the product of their ratios leaves hardly one of them.
    rng = np.random.default_rng(3)
    pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(60), 40),
            "state": np.zeros(2400, dtype=int),
            "action": rng.integers(2, size=2400),
            "reward": rng.random(2400),
            "propensity": np.full(2400, 0.5),
        }
    ).write_csv(tmp_path / "log.csv")
    pl.DataFrame(
        {
            "policy": ["near", "near", "far", "far"],
            "state": [0] * 4,
            "action": [0, 1] * 2,
            "prob": [0.5, 0.5, 0.05, 0.95],
        }
    ).write_csv(tmp_path / "policies.csv")
    shared = ["select", tmp_path / "log.csv", "-p", tmp_path / "policies.csv", "-o"]
    code, out = run(*[*shared, tmp_path / "wis", "--gamma", "0.99", "--method", "wis"])
    assert code == 3, out.err
    ranking = json.loads((tmp_path / "wis" / "ranking.json").read_text())
    rows = {row["policy"]: row for row in ranking["table"]}
    assert rows["near"]["effective_episodes"] == pytest.approx(60.0)
    assert 1.0 <= rows["far"]["effective_episodes"] < 3.0
    assert (rows["near"]["thin"], rows["far"]["thin"]) == (False, True)
    said = " ".join(out.out.split())
    number = f"{rows['far']['effective_episodes']:.1f}"
    assert f"Warning: far: rests on {number} effective episodes of 60" in said
    assert "effective episodes" in out.out.split("near")[0]
    assert number in next(line for line in out.out.splitlines() if "far ?" in line)
    code, out = run(*[*shared, tmp_path / "bandit", "--gamma", "0", "--method", "wis"])
    assert code == 0, out.err
    assert "effective rows" in out.out


def test_settings_are_read_as_what_the_method_takes(files, tmp_path, run):
    more = ["--method", "pdis:bernstein", "--set", "reward-range=0,1", "--set", "max_weight=9.5"]
    code, out = run(*arguments(files, "bandit", tmp_path / "out", *more))
    assert code == 0, out.err
    ranking = json.loads((tmp_path / "out" / "ranking.json").read_text())
    assert ranking["settings"]["reward_range"] == [0.0, 1.0]
    assert ranking["settings"]["max_weight"] == 9.5
    more = ["--method", "lstdq", "--set", "renormalize=true", "--set", "ridge=None"]
    code, out = run(*arguments(files, "frozenlake", tmp_path / "two", *more))
    assert code == 0, out.err
    settings = json.loads((tmp_path / "two" / "ranking.json").read_text())["settings"]
    assert (settings["renormalize"], settings["ridge"]) == (True, None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--method", "wpis"], ["unknown method 'wpis'", "wpdis", "bayesdice methods"]),
        (
            ["--method", "lstdq", "--score", "regret"],
            ["--score belongs", "gives only estimates", "--by"],
        ),
        (["--method", "lstdq", "-k", "2", "--risk", "mean"], ["--top, --risk belong to beliefs"]),
        (["--method", "coin_dice", "--budget", "2"], ["--budget", "only intervals"]),
        (["--method", "wis", "--costs", "a=1"], ["--costs"]),
        (["--method", "wis", "--must-include", "a"], ["--must-include"]),
        (["--method", "wis", "--must-exclude", "a"], ["--must-exclude"]),
        (["--method", "wis", "--baseline", "a", "--xi", "0.1"], ["--baseline, --xi"]),
        (["--method", "lstdq", "--by", "lower"], ["--by lower needs an interval", "lstdq"]),
        (["--method", "wis", "--by", "lower"], ["wis:student", "wis:bca give one"]),
        (["--method", "wis", "--level", "0.8"], ["--level needs an interval"]),
        (["--method", "wis:bca", "--by", "sd"], ["--by", "'value', 'lower', 'upper'", "'sd'"]),
        (["--method", "wis:bca", "--level", "1.5"], ["level", "1.5"]),
        (["--method", "beta", "--by", "value"], ["--by belongs to methods without draws"]),
        (["--method", "beta", "--level", "0.5"], ["--level"]),
        (["--method", "lstdq", "--draws", "50"], ["--draws", "--set takes ridge, features"]),
        (["--method", "beta", "--draws", "50", "--set", "draws=9"], ["found both"]),
        (["--method", "lstdq", "--set", "rige=1"], ["no setting 'rige'", "ridge"]),
        (["--method", "lstdq", "--set", "ridge"], ["--set", "key=value", "'ridge'"]),
        (["--method", "lstdq", "--set", "ridge=x"], ["ridge: expected a number or none", "'x'"]),
        (["--method", "lstdq", "--set", "renormalize=1"], ["expected true or false"]),
        (["--method", "fqe_mlp", "--set", "steps=2.5"], ["steps: expected a whole number"]),
        (["--method", "wis:hoeffding", "--set", "reward_range=1"], ["two numbers, such as 0,1"]),
        (["--method", "wis:student", "--set", "resamples=500"], ["no effect", "wis:bca uses it"]),
        (["--method", "lstdq_bootstrap", "--set", "resamples=500"], ["did you mean draws?"]),
        (["--method", "wis", "--draws", "50"], ["it has no settings"]),
        (["--method", "lstdq", "--set", "features=x"], ["features is an object", "Python"]),
        (["--method", "lstdq", "--set", "ridge=1", "--set", "ridge=2"], ["given twice"]),
        (["--by", "lower"], ["--by belongs to other methods", "--method is bayesdice"]),
        (["--method", "bayesdice", "--level", "0.8", "--set", "a=1"], ["--set, --level belong"]),
        (["--method", "wis", "--inference", "exact"], ["--inference belongs to BayesDICE,"]),
        (["--method", "wis", "--penalty", "squared"], ["--penalty"]),
        (["--method", "wis", "--surrogate", "cvar"], ["--surrogate"]),
        (["--method", "wis", "--link", "softplus"], ["--link"]),
        (["--method", "wis", "--statistic", "mean"], ["--statistic"]),
        (["--method", "wis", "--cluster", "episode"], ["--cluster"]),
        (["--method", "wis", "--joint"], ["--joint"]),
        (["--method", "beta", "--no-small-sample"], ["--small-sample"]),
        (["--method", "beta", "--preset", "paper"], ["--preset"]),
        (["--method", "beta", "--include-logged"], ["--include-logged"]),
    ],
)
def test_what_does_not_belong_together_is_refused_by_name(more, words, files, tmp_path, run):
    code, out = run(*arguments(files, "bandit", tmp_path / "out", *more))
    assert code == 2, out.out
    assert out.err.startswith("Error: ")
    for word in words:
        assert word in out.err
    assert not (tmp_path / "out").exists()


def test_a_log_without_propensities_is_told_of_the_fitted_behavior(files, tmp_path, run):
    pl.read_parquet(files / "frozenlake.parquet").drop("propensity").write_parquet(
        tmp_path / "bare.parquet"
    )
    shared = ["select", tmp_path / "bare.parquet", "-p", files / "frozenlake_candidates.parquet"]
    shared += ["--gamma", "0.9", "-o", tmp_path / "out", "--method"]
    code, out = run(*shared, "wpdis")
    assert code == 2
    assert "no column propensity" in out.err
    assert "wpdis:fitted" in out.err
    code, out = run(*shared, "wpdis:fitted")
    assert code == 0, out.err


def test_a_folder_that_holds_something_is_not_touched(files, tmp_path, run):
    (tmp_path / "mine.txt").write_text("keep")
    code, out = run(*arguments(files, "bandit", tmp_path, "--method", "lstdq"))
    assert code == 2
    assert "--overwrite" in out.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_methods_lists_all_with_what_they_need_and_give(run):
    code, out = run("methods")
    assert code == 0, out.err
    lines = out.out.splitlines()
    first = {line.split()[0] for line in lines if line.startswith(" ") and line.split()}
    assert {"bayesdice", *METHODS} <= first
    assert any("coin_dice" in line and "interval" in line for line in lines)
    assert any(" dr " in line and "propensities, labels" in line for line in lines)
    assert "mis: student, bernstein, hoeffding, bca\n" in out.out
    assert max(map(len, lines)) <= 80


def test_a_fitted_behavior_policy_needs_no_propensities(run):
    _, out = run("methods", "wis:fitted")
    assert "Needs: labels. Gives: estimate." in out.out


def test_settings_of_a_method_are_listed(run):
    code, out = run("methods", "wpdis:bca")
    assert code == 0
    assert "Needs: propensities, rng_key. Gives: interval." in out.out
    assert "resamples" in out.out
    assert "max_weight" not in out.out
    code, out = run("methods", "wpdis:hoeffding")
    assert "resamples" not in out.out
    assert "only with" in out.out
    (bounds,) = [line for line in out.out.splitlines() if "reward_range" in line]
    assert bounds.split()[-1] == "max_weight"
    code, out = run("methods", "wpdis:student")
    assert code == 0
    assert "It has no settings." in out.out
    code, out = run("methods", "wpdis:bcaa")
    assert code == 2
    assert "wpdis" in out.err


def test_an_overwritten_folder_holds_nothing_of_the_run_before(files, tmp_path, run):
    folder = tmp_path / "out"
    for method in ("mis:student", "beta", "lstdq"):
        code, out = run(*arguments(files, "bandit", folder, "--method", method, "--overwrite"))
        assert code == 0, out.err
        found = {path.name for path in folder.iterdir()}
        if method == "beta":
            assert found == {"belief.nc", "ranking.json", "forest.png"}
            assert "The belief is from --method beta, not from BayesDICE." in out.out
        else:
            assert found == {"ranking.json", "estimates.csv", "estimates.png"}


def test_intervals_that_overlap_are_told(tmp_path, run):
    pl.DataFrame(
        {"state": [0] * 40, "action": [0, 1] * 20, "reward": [1.0, 1.0, 0.0, 0.0] * 10}
    ).write_csv(tmp_path / "log.csv")
    pl.DataFrame(
        {"policy": ["a", "b"], "state": [0, 0], "action": [0, 1], "prob": [1.0, 1.0]}
    ).write_csv(tmp_path / "policies.csv")
    code, out = run(
        *["select", tmp_path / "log.csv", "-p", tmp_path / "policies.csv", "--gamma", "0"],
        *["--method", "coin_dice", "-o", tmp_path / "out"],
    )
    assert code == 0, out.err
    said = " ".join(out.out.split())
    assert "a, b both have the highest estimate" in said or "overlap with that one" in said
