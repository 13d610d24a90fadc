"""Logs of vectors: default features, and candidates that do not fit them."""

import sys

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl import cli
from bayesdice_ppl.errors import PoliciesError
from tests.marks import slow

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


class Coin:
    """Chooses between the two actions whatever it sees."""

    def probs(self, obs):
        return np.tile([0.3, 0.7], (len(obs), 1))


NORMAL = bd.GaussianPolicy(lambda obs: np.zeros((len(obs), 2)) + 1.0, 1.0)
BOTH = table("state", "action", **OBS, **ACTIONS)


@pytest.mark.parametrize("gamma", [slow(0.0), 0.9])
@pytest.mark.parametrize(
    ("frame", "policy", "features"),
    [
        slow(
            table("state", **OBS),
            Coin(),
            "product(fourier(2, times_median=1, of='state'), one_",
        ),
        (table("action", **ACTIONS), NORMAL, "product(fourier(2, times_median=1, of='action')"),
        (BOTH, NORMAL, "fourier(10, times_median=1, of='both')"),
    ],
    ids=["observations", "actions", "both"],
)
def test_vectors_are_fitted_on_features_of_their_own(gamma, frame, policy, features):
    logs = bd.Logs.from_dataframe(pl.DataFrame(frame), actions=None if policy is NORMAL else [0, 1])
    belief = bd.fit(
        logs, {"p": policy}, gamma=gamma, rng_key=jax.random.key(0), inference="exact", draws=10
    )
    assert features in belief.attrs["settings"]
    assert np.isfinite(belief["posterior/value"].values).all()
    # Ten draws around the rewards, which are 0 to 4.
    assert -4.0 < belief["constant_data/guide_mean"].item() < 8.0


@pytest.mark.parametrize(
    ("frame", "policies", "message"),
    [
        (table("state", **OBS), CANDIDATES, "found a table over labeled states"),
        (table("action", **ACTIONS), CANDIDATES, "sample"),
        (table("state", **OBS), {"p": NORMAL}, "GaussianPolicy, which draws vectors"),
    ],
)
def test_candidates_of_another_kind_are_refused_by_name(frame, policies, message):
    logs = bd.Logs.from_dataframe(
        pl.DataFrame(frame), actions=[0, 1] if "action" in frame else None
    )
    with pytest.raises(PoliciesError, match=message) as caught:
        bd.fit(logs, policies, gamma=0.9, rng_key=jax.random.key(0))
    assert "'p'" in str(caught.value)


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
    assert "sample(rng_key, obs, n)" in " ".join(shown.out.split())
