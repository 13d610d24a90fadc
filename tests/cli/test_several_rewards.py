"""Several rewards from the command line: read, traded, limited, refused."""

import json

import numpy as np
import polars as pl
import pytest

QUALITY, COST = [0.5, 0.6, 0.9], [0.1, 0.3, 1.2]


@pytest.fixture
def place(tmp_path):
    """Three actions, each a candidate: the larger the better, and the dearer."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, 1200)
    pl.DataFrame(
        {
            "state": np.zeros(1200, int),
            "action": action,
            "quality": np.array(QUALITY)[action] + rng.normal(0, 0.1, 1200),
            "cost": np.array(COST)[action] + rng.normal(0, 0.05, 1200),
        }
    ).write_csv(tmp_path / "log.csv")
    pl.DataFrame(
        {
            "policy": ["small", "middle", "large"],
            "state": [0, 0, 0],
            "action": [0, 1, 2],
            "prob": [1.0, 1.0, 1.0],
        }
    ).write_csv(tmp_path / "candidates.csv")
    return tmp_path


def words(place, *more, output="out"):
    files = (place / "log.csv", "-p", place / "candidates.csv", "-o", place / output)
    return ("select", *files, "--gamma", "0", "--seed", "0", *more)


def best(place, output="out"):
    return json.loads((place / output / "ranking.json").read_text())["order"][0]


def test_a_trade_and_a_limit_rank_what_they_say(run, place):
    both = ("--reward", "quality,cost")
    assert run(*words(place, *both))[0] == 0
    assert best(place) == "large"
    code, traded = run(*words(place, *both, "--weights", "quality=1,cost=-0.5", output="traded"))
    assert code == 0
    # .45, .45 and .3: the worst of the three is the best of one reward.
    assert json.loads((place / "traded" / "ranking.json").read_text())["order"][2] == "large"
    assert "quality - 0.5 cost" in traded.out
    code, limited = run(*words(place, *both, "--limits", "cost<=0.5", output="limited"))
    assert code == 0
    assert json.loads((place / "limited" / "ranking.json").read_text())["launch"] == ["middle"]
    assert "outside the limits" in limited.out
    belief = place / "out" / "belief.nc"
    code, again = run("rank", belief, "--limits", "cost<=0.5")
    assert code == 0
    assert "Try middle" in again.out
    assert run("rank", belief, "--weights", "cost=-1")[0] == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--reward", "quality,price"), "found 'price'"),
        (("--reward", "quality,cost", "--weights", "price=1"), "found 'price'"),
        (("--reward", "quality,cost", "--weights", "cost"), "name=weight"),
        (("--reward", "quality,cost", "--weights", "cost=much"), "expected a number"),
        (("--reward", "quality,cost", "--limits", "cost<0.5"), "cost<=0.02"),
        (("--reward", "quality,cost", "--limits", "cost<=1,cost<=2"), "two limits"),
        (("--reward", "quality,cost", "--limits", "cost<=1,cost>=2"), "lowest of 'cost' first"),
        (("--reward", "quality", "--confidence", "0.5"), "expected limits beside it"),
        (("--reward", "quality,cost", "--limits", "cost<=1", "--confidence", "2"), "probability"),
        (("--reward", "quality,cost", "--method", "mwl"), "expected one reward"),
        (("--reward", "quality", "--method", "mwl", "--weights", "quality=1"), "--weights"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else value,
)
def test_what_cannot_be_meant_is_refused(run, place, more, said):
    code, shown = run(*words(place, *more))
    assert code == 2
    assert said in " ".join(shown.err.split())
    assert not (place / "out").exists()


def test_limits_that_leave_nobody_are_written_and_end_with_3(run, place):
    code, shown = run(*words(place, "--reward", "quality,cost", "--limits", "cost<=0.01"))
    assert code == 3
    assert "the limits leave nobody to go live" in " ".join(shown.out.split())
    ranking = json.loads((place / "out" / "ranking.json").read_text())
    assert (ranking["recommended"], ranking["launch"], ranking["limits_met"]) == (False, [], False)
    belief, page = place / "out" / "belief.nc", place / "page.html"
    code, _ = run("report", belief, "-o", page, "--limits", "cost<=0.01")
    assert code == 3
    assert "the limits leave nobody to go live" in page.read_text()


def test_information_is_not_found_within_limits(run, place):
    assert run(*words(place, "--reward", "quality,cost"))[0] == 0
    belief = place / "out" / "belief.nc"
    code, shown = run("rank", belief, "--limits", "cost<=0.5", "--information")
    assert code == 2
    assert "--must-exclude" in " ".join(shown.err.split())
    assert run("rank", belief, "--weights", "cost=-1", "--statistic", "cost")[0] == 2
