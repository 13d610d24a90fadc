"""What can be done with vectors as long as none can be fitted: check them, and be told why."""

import sys

import jax
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import cli
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.preparation import prepare

LABELS = {
    "episode_id": [k // 2 for k in range(24)],
    "state": [k % 3 for k in range(24)],
    "action": [k % 2 for k in range(24)],
    "reward": [float(k % 5) for k in range(24)],
}
OBS = {f"obs_{j}": [k + j / 4 for k in range(24)] for j in range(10)}
ACTIONS = {"action_0": LABELS["reward"], "action_1": LABELS["reward"]}
CANDIDATES = {"p": bd.TabularPolicy([[0.5, 0.5]] * 3)}


def table(*without, **vectors):
    return {k: v for k, v in LABELS.items() if k not in without} | vectors


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize(
    ("frame", "words", "others"),
    [
        (table("state", **OBS), ["observations (obs, 10 numbers)", "as 'state'"], ["actions"]),
        (table("action", **ACTIONS), ["actions (action, 2 numbers)", "as 'action'"], ["obs"]),
        (
            table("state", "action", **OBS, **ACTIONS),
            ["observations (obs, 10 numbers) and actions", "as 'state' and 'action'"],
            [],
        ),
    ],
    ids=["observations", "actions", "both"],
)
def test_vectors_are_not_fitted_and_the_message_says_which(gamma, frame, words, others):
    logs = bd.Logs.from_dataframe(pl.DataFrame(frame))
    with pytest.raises(LogsError, match="feature maps") as caught:
        bd.fit(logs, CANDIDATES, gamma=gamma, rng_key=jax.random.key(0))
    assert all(word in str(caught.value) for word in words)
    assert not any(word in str(caught.value) for word in others)
    with pytest.raises(LogsError, match="feature maps"):
        prepare(logs, CANDIDATES, gamma=gamma)


def run(*arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bayesdice", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0, capsys.readouterr()


def test_check_reads_vectors_and_refuses_to_hold_candidates_against_them(
    tmp_path, monkeypatch, capsys
):
    logs, candidates = tmp_path / "logs.csv", tmp_path / "candidates.csv"
    # Under a name of their own, that the mapping gives by its prefix.
    renamed = {name.replace("obs", "seen"): values for name, values in OBS.items()}
    pl.DataFrame(table("state", "action", **renamed, **ACTIONS)).write_csv(logs)
    bd.Policies(CANDIDATES).to_dataframe().write_csv(candidates)
    known = {"monkeypatch": monkeypatch, "capsys": capsys}
    given = ("check", logs, "--gamma", "0.9", "--columns", "obs=seen")
    code, shown = run(*given, **known)
    assert code == 0, shown.err
    text = " ".join(shown.out.split())
    assert "10-dimensional observations, 2-dimensional actions" in text
    assert "12 transitions can be used and 12 are left out" in text
    code, shown = run(*given, "--policies", candidates, **known)
    assert code == 2
    assert "feature maps" in " ".join(shown.err.split())
