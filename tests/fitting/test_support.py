"""Support numbers against a plain model of the log."""

import json

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.support import Support, support_warnings
from tests.linear_world import chain_log, chain_value, gaussian
from tests.marks import slow

KEY = jax.random.key(0)
# Priors so wide that the fitted ratio is that of the model of the log.
FLAT = {"prior": bd.Prior(1e4, 1e4), "inference": "exact", "draws": 50}


def walk(seed, *, terminate=0.0, dead_start=False, n_episodes=60):
    """Three rooms; the cellar is sometimes entered, and there only the action `wait` was logged."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n_episodes):
        state = "cellar" if dead_start and episode % 10 == 0 else "hall"
        for step in range(6):
            action = "wait" if state == "cellar" else ("go", "stay")[int(rng.integers(2))]
            u = rng.random()
            following = "cellar" if u < 0.1 else "attic" if u < 0.5 else "hall"
            ended = bool(rng.random() < terminate)
            rows.append((episode, step, state, action, float(u > 0.7), following, ended))
            if ended:
                break
            state = following
    names = ["episode_id", "step", "state", "action", "reward", "next_state", "terminated"]
    return bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))


STATES, ACTIONS = ["attic", "cellar", "hall"], ["go", "stay", "wait"]
POLICIES = {
    # Takes the unlogged `wait` at times, and the logged one in the cellar.
    "cautious": [[0.5, 0.3, 0.2], [0.0, 0.0, 1.0], [0.6, 0.3, 0.1]],
    # Takes nothing that was logged in the cellar.
    "daring": [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.8, 0.0]],
}


@pytest.fixture(
    scope="module",
    params=[
        (0.9, True, 0.2, True),
        (0.9, False, 0.2, True),
        (1.0, True, 0.0, False),
    ],
    ids=str,
)
def case(request, plain):
    gamma, restart, terminate, dead_start = request.param
    logs = walk(2, terminate=terminate, dead_start=dead_start)
    # At gamma = 1 mass that is lost for ever leaves no average, so only the cautious one is asked.
    names = ["cautious"] if gamma == 1.0 else list(POLICIES)
    policies = {name: bd.TabularPolicy(POLICIES[name], STATES, ACTIONS) for name in names}
    belief = bd.fit(
        logs,
        policies,
        gamma=gamma,
        rng_key=KEY,
        on_termination="restart" if restart else "absorb",
        **FLAT,
    )
    oracles = {
        name: plain.problem(logs, policy, gamma=gamma, restart=restart)
        for name, policy in policies.items()
    }
    return logs, belief["constant_data"], oracles


def lost_by_walking(oracle, starts):
    """Occupancy of a grave that swallows whoever comes to a state without a logged action."""
    pairs, gamma = oracle.pairs, oracle.gamma
    dead = {s for s in oracle.policy if not oracle.policy[s]}
    p = len(pairs)
    into = np.array([sum(s in dead for s in starts) / len(starts)])
    flow = np.zeros((p + 1, p + 1))
    for row, k in zip(oracle.rows, oracle.pair_of_row, strict=True):
        share = 1.0 / oracle.counts[k]
        if not row["terminated"]:
            flow[k, :p] += share * oracle.phi(row["next_state"])
            flow[k, p] += share * (row["next_state"] in dead)
        elif oracle.restart:
            flow[k, :p] += share * oracle.phi0bar
            flow[k, p] += share * into[0]
    flow[p, p] = 1.0
    start = np.r_[oracle.phi0bar, into]
    system = np.eye(p + 1) - gamma * flow.T
    return np.linalg.solve(system, (1.0 - gamma) * start)[p]


def test_moved_mass_is_the_share_of_steps_with_an_unlogged_action(case):
    _, found, oracles = case
    for name, oracle in oracles.items():
        share = oracle.occupancy()
        moved = sum(
            d * (1.0 - oracle.kept[state])
            for d, (state, _) in zip(share, oracle.pairs, strict=True)
        )
        assert float(found.moved_mass.sel(policy=name)) == pytest.approx(moved, abs=1e-5)


def test_lost_mass_is_the_occupancy_of_what_swallows_it(case):
    logs, found, oracles = case
    starts = logs.state_labels[logs.initial_state].tolist()
    for name, oracle in oracles.items():
        lost = float(found.lost_mass.sel(policy=name))
        if name == "cautious":
            assert lost == 0.0
        else:
            expected = lost_by_walking(oracle, starts)
            assert expected > 0.1
            assert lost == pytest.approx(expected, abs=1e-4)


def test_effective_sample_size_is_that_of_the_transitions_ratios(case):
    _, found, oracles = case
    for name, oracle in oracles.items():
        ratio = (oracle.occupancy() * oracle.n / oracle.counts)[oracle.pair_of_row]
        expected = ratio.sum() ** 2 / (ratio**2).sum()
        assert float(found.effective_sample_size.sel(policy=name)) == pytest.approx(
            expected, rel=1e-4
        )


def test_influential_episode_share_equals_a_loop_over_episodes(case):
    _, found, oracles = case
    for name, oracle in oracles.items():
        # Steps that the log knows nothing about count as its mean reward.
        oracle.unknown = np.mean([row["reward"] for row in oracle.rows])
        transitions, starts = oracle.influence()
        transitions = transitions - transitions.mean()
        total = oracle.n / oracle.m * starts
        for row, one in zip(oracle.rows, transitions, strict=True):
            total[row["episode"]] += one
        expected = (total**2).max() / (total**2).sum()
        assert float(found.influential_episode_share.sel(policy=name)) == pytest.approx(
            expected, rel=1e-3
        )


GOOD = {
    "moved_mass": 0.0,
    "lost_mass": 0.0,
    "effective_sample_size": 1000.0,
    "influential_episode_share": 0.1,
    "negative_mass": 0.0,
}


def warned(**changes):
    fields = {**GOOD, **changes}
    support = Support(**{key: np.array([value]) for key, value in fields.items()})
    return support_warnings(("mine",), support)


def test_good_support_is_not_worth_a_word():
    assert warned() == ()


@pytest.mark.parametrize(
    ("changes", "words", "abstain"),
    [
        ({"moved_mass": 0.05}, "5.0%", False),
        ({"moved_mass": 0.2}, "20.0%", True),
        ({"lost_mass": 0.0005}, "0.05%", False),
        ({"lost_mass": 0.01}, "1.00%", True),
        ({"effective_sample_size": 15.0}, "15.0 effective", False),
        ({"effective_sample_size": 5.0}, "5.0 effective", True),
        ({"influential_episode_share": 0.8}, "80%", False),
        ({"negative_mass": 0.1}, "10% of the mass", False),
        ({"negative_mass": 0.3}, "30% of the mass", True),
    ],
    ids=str,
)
def test_each_number_past_its_threshold_gets_a_sentence(changes, words, abstain):
    (warning,) = warned(**changes)
    assert warning.policy == "mine"
    assert words in warning.reason
    assert warning.abstain is abstain


def test_warnings_are_kept_with_the_belief(plain):
    import json

    logs = walk(3)
    policy = bd.TabularPolicy(POLICIES["daring"], STATES, ACTIONS)
    belief = bd.fit(logs, {"daring": policy}, gamma=0.9, rng_key=KEY, **FLAT)
    kept = json.loads(belief.attrs["support_warnings"])
    assert [w["policy"] for w in kept] == ["daring"] * len(kept)
    assert any(w["abstain"] and "none of its actions were logged" in w["reason"] for w in kept)


@pytest.mark.parametrize("termination", [slow("restart"), "absorb"])
def test_a_candidate_past_the_logged_actions_has_a_ratio_that_turns_negative(termination):
    # Of absorbed episodes the ratio averages far less than one; a share does not care.
    candidates = {"near": gaussian(0.2, 0.1, 1.0), "far": gaussian(0.2, 3.0, 0.3)}
    frame = chain_log(2, n_episodes=60, n_steps=20).to_dataframe()
    if termination == "absorb":
        frame = frame.with_columns(terminated=pl.col("step") == 19)
    logs = bd.Logs.from_dataframe(frame)
    how = {"gamma": 0.8, "rng_key": jax.random.key(1), "on_termination": termination}
    belief = bd.fit(logs, candidates, inference="exact", draws=50, **how)
    found = belief["constant_data"]
    for name in candidates:
        ratio = found.pilot_ratio.sel(policy=name).values.tolist()
        expected = sum(-one for one in ratio if one < 0.0) / sum(abs(one) for one in ratio)
        assert float(found.negative_mass.sel(policy=name)) == pytest.approx(expected, rel=1e-6)
    assert float(found.negative_mass.sel(policy="near")) < 0.05
    assert told_of_negative_mass(belief) == ["far"]
    if termination == "restart":
        # It is right to warn: far misses what it is worth by many of its posterior sds.
        value = belief["posterior/value"].sel(policy="far")
        off = abs(float(value.mean()) - chain_value(0.2, 3.0, 0.3, 0.8))
        assert off > 5.0 * float(value.std())


@pytest.mark.slow
def test_a_positive_link_is_told_of_its_pilot():
    candidates = {"far": gaussian(0.2, 3.0, 0.3)}
    logs = chain_log(2, n_episodes=20, n_steps=10)
    model = bd.models.linear(link="softplus")
    belief = bd.fit(logs, candidates, gamma=0.8, rng_key=jax.random.key(1), model=model, draws=50)
    # The link keeps ratios positive, and the value misses what it is worth all the same.
    value = belief["posterior/value"].sel(policy="far")
    assert abs(float(value.mean()) - chain_value(0.2, 3.0, 0.3, 0.8)) > 5.0 * float(value.std())
    assert told_of_negative_mass(belief) == ["far"]


def test_ratios_on_one_hot_features_hardly_turn_negative(case):
    _, found, _ = case
    assert float(found.negative_mass.max()) < 0.001


def told_of_negative_mass(belief):
    warnings = json.loads(belief.attrs["support_warnings"])
    return [each["policy"] for each in warnings if "is negative" in each["reason"]]
