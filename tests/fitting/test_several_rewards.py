"""Several rewards in one fit: each as it is alone, and joint as a sum of them says."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import (
    BeliefView,
    SupportWarning,
    make_belief,
    read_values,
    read_warnings,
)
from bayesdice_ppl.errors import LogsError, SettingsError

KEY = jax.random.key(3)
N_STATES, N_ACTIONS = 4, 3
WEIGHTS = {"quality": 1.0, "cost": -0.5}


def bandit(n=1500, seed=0):
    """Rows of independent contexts, a uniform policy, a quality and a cost that goes with it."""
    rng = np.random.default_rng(seed)
    state, action = rng.integers(0, N_STATES, n), rng.integers(0, N_ACTIONS, n)
    worth = rng.random((N_STATES, N_ACTIONS))
    quality = worth[state, action] + rng.normal(0, 0.3, n)
    cost = 2 * worth[state, action] + 0.5 * quality + rng.normal(0, 0.1, n)
    return pl.DataFrame({"state": state, "action": action, "quality": quality, "cost": cost})


def of_users(n=1500, seed=1):
    """The bandit with 20 rows of each user, who has an effect on both rewards."""
    table = bandit(n, seed)
    rng = np.random.default_rng(seed + 1)
    user = np.arange(n) // 20
    effect = rng.normal(0, 0.4, n // 20)[user]
    return table.with_columns(
        pl.col("quality") + effect, pl.col("cost") - effect, pl.Series("user_id", user)
    )


def chains(n_episodes=120, length=8, seed=2):
    """Episodes of a walk whose next state hangs on the action."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n_episodes):
        state = int(rng.integers(N_STATES))
        for _ in range(length):
            action = int(rng.integers(N_ACTIONS))
            noise = rng.normal()
            rows.append((episode, state, action, state + noise, 0.3 * action - 0.6 * noise))
            state = int((state + action + (rng.random() < 0.3)) % N_STATES)
    return pl.DataFrame(
        rows, schema=["episode_id", "state", "action", "quality", "cost"], orient="row"
    )


def vectors(n=600, seed=3):
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(n, 2))
    action = rng.integers(0, N_ACTIONS, n)
    quality = obs[:, 0] * action + rng.normal(0, 0.5, n)
    return pl.DataFrame(
        {
            "obs_0": obs[:, 0],
            "obs_1": obs[:, 1],
            "action": action,
            "quality": quality,
            "cost": action - 0.7 * quality + rng.normal(0, 0.5, n),
            "propensity": np.full(n, 1 / N_ACTIONS),
        }
    )


class Prefers:
    """A policy for vectors: one action more often than the others."""

    def __init__(self, action):
        self.action = action

    def probs(self, observation):
        found = np.full((len(observation), N_ACTIONS), 0.2)
        found[:, self.action] = 0.6
        return found


def policies(table):
    if "obs_0" in table.columns:
        return {f"prefers {a}": Prefers(a) for a in range(N_ACTIONS)}
    identity = np.eye(N_ACTIONS)
    return {
        "low": identity[[0, 0, 1, 2]] * 0.8 + 0.2 / N_ACTIONS,
        "uniform": np.full((N_STATES, N_ACTIONS), 1.0 / N_ACTIONS),
        "high": identity[[1, 1, 2, 0]],
        "again": identity[[1, 1, 2, 0]],
    }


LOGS = {"bandit": (bandit, 0.0), "users": (of_users, 0.0), "chains": (chains, 0.9)}
LOGS["vectors"] = (vectors, 0.0)


@pytest.fixture(scope="module", params=LOGS)
def case(request):
    make, gamma = LOGS[request.param]
    table = make()
    table = table.with_columns(
        (pl.col("quality") - 0.5 * pl.col("cost")).alias("both"),
    )
    space = list(range(N_ACTIONS))
    both = bd.Logs.from_dataframe(table.drop("both"), reward=["quality", "cost"], actions=space)

    def fit(logs):
        return bd.fit(logs, policies(table), gamma=gamma, rng_key=KEY)

    whole = fit(both)
    alone = {name: fit(both.with_reward(name)) for name in both.rewards}
    unnamed = table.drop("quality", "cost")
    alone["both"] = fit(bd.Logs.from_dataframe(unnamed, reward="both", actions=space))
    return whole, alone


def draws(belief, variable="value"):
    return np.asarray(belief[f"posterior/{variable}"])[0]


def test_further_rewards_change_nothing_of_the_first(case):
    whole, alone = case
    np.testing.assert_array_equal(draws(whole), draws(alone["quality"]))
    np.testing.assert_array_equal(draws(whole, "quality"), draws(whole))
    for name in ("support_warnings", "unit", "reward_sd"):
        assert whole.attrs[name] == alone["quality"].attrs[name]


def test_each_has_the_draws_that_it_has_alone_in_another_order(case):
    whole, alone = case
    found, own = draws(whole, "cost"), draws(alone["cost"])
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(own, axis=0))
    assert not np.array_equal(found, own)


def test_candidates_of_one_reward_stay_joint_as_they_were(case):
    whole, alone = case
    found, own = (
        np.corrcoef(draws(b, n).T) for b, n in ((whole, "cost"), (alone["cost"], "value"))
    )
    np.testing.assert_allclose(found, own, atol=0.02)


def test_a_weighted_sum_is_the_belief_of_the_sum_of_rewards(case):
    """The value is linear in the reward, and so is the error of its estimate."""
    whole, alone = case
    found, own = read_values(whole, WEIGHTS).values[0], draws(alone["both"])
    sd = own.std(axis=0)
    # Draws are not the same, so that means differ by their Monte Carlo error.
    error = 5.0 * sd * np.sqrt(2.0 / len(own))
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - own.mean(axis=0)), error + 0.03 * sd)
    np.testing.assert_allclose(found.std(axis=0), sd, rtol=0.08)
    differences = [(a, b) for a in range(3) for b in range(a)]
    for a, b in differences:
        apart = (found[:, a] - found[:, b]).std(), (own[:, a] - own[:, b]).std()
        np.testing.assert_allclose(*apart, rtol=0.08)


def test_equal_candidates_share_every_draw():
    table = bandit()
    belief = bd.fit(
        bd.Logs.from_dataframe(table, reward=["quality", "cost"]),
        policies(table),
        gamma=0.0,
        rng_key=KEY,
    )
    for name in ("quality", "cost"):
        found = draws(belief, name)
        np.testing.assert_array_equal(found[:, 2], found[:, 3])


def test_correlations_are_those_of_influences_on_paper():
    """A bandit's influence: ratio times the reward less its pair's mean, plus the state's value."""
    table = bandit()
    chosen = policies(table)
    belief = bd.fit(
        bd.Logs.from_dataframe(table, reward=["quality", "cost"]), chosen, gamma=0.0, rng_key=KEY
    )
    state, action = table["state"].to_numpy(), table["action"].to_numpy()
    n, influences = len(state), []
    for name in ("quality", "cost"):
        reward = table[name].to_numpy()
        for policy in chosen.values():
            mean, ratio = np.zeros(n), np.zeros(n)
            value = np.zeros(N_STATES)
            for s in range(N_STATES):
                for a in range(N_ACTIONS):
                    here = (state == s) & (action == a)
                    mean[here] = reward[here].mean()
                    ratio[here] = policy[s, a] * (state == s).sum() / here.sum()
                    value[s] += policy[s, a] * reward[here].mean()
            influences.append(ratio * (reward - mean) + value[state] - value[state].mean())
    found = np.corrcoef(np.column_stack([draws(belief, "quality"), draws(belief, "cost")]).T)
    np.testing.assert_allclose(found, np.corrcoef(influences), atol=0.01)


def test_independent_candidates_keep_the_rewards_of_one_joint():
    table = bandit()
    belief = bd.fit(
        bd.Logs.from_dataframe(table, reward=["quality", "cost"]),
        policies(table),
        gamma=0.0,
        rng_key=KEY,
        joint=False,
    )
    found = np.corrcoef(np.column_stack([draws(belief, "quality"), draws(belief, "cost")]).T)
    assert found[0, 4] > 0.5
    assert np.abs(found[0, 5:]).max() < 5.0 / np.sqrt(4000)


def test_a_rewards_own_warnings_are_read_with_it():
    table = bandit(400)
    rare = np.zeros(400)
    rare[:3] = 100.0
    logs = bd.Logs.from_dataframe(
        table.with_columns(pl.Series("rare", rare)).drop("cost"), reward=["quality", "rare"]
    )
    belief = bd.fit(logs, policies(table), gamma=0.0, rng_key=KEY)
    alone = bd.fit(logs.with_reward("rare"), policies(table), gamma=0.0, rng_key=KEY)
    names = tuple(policies(table))
    assert read_warnings(belief, names, "rare") == read_warnings(alone, names)
    assert any(each.abstain for each in read_warnings(belief, names, "rare"))
    assert not any(each.abstain for each in read_warnings(belief, names))
    both = read_warnings(belief, names, {"quality": 1.0, "rare": 0.01})
    assert {each.reason.startswith("rare: ") for each in both if each.abstain} == {True}
    score = bd.scores.regret(k=1)
    assert bd.select(belief, score).recommended
    assert not bd.select(belief, score, statistic="rare").recommended
    assert not bd.select(belief, score, limits={"rare": (-1e9, None)}).recommended
    checked = bd.diagnose(belief, logs)
    assert not checked.passed
    warned = {each.policy for each in read_warnings(alone, names) if each.abstain}
    assert {each.policy for each in checked.verdicts if each.word == "do not use"} == warned
    reasons = [reason for each in checked.verdicts for reason in each.reasons]
    assert all(each.sentence.startswith("rare: ") for each in reasons if each.refuses)


def test_a_warning_that_two_rewards_share_abstains_if_one_of_them_does():
    mild, grave = (SupportWarning("a", "was never seen.", grave) for grave in (False, True))
    values = np.arange(4.0)[:, None]
    belief = make_belief(
        values,
        ["a"],
        statistics={"quality": values, "cost": values},
        support_warnings=[mild],
        rewards=["quality", "cost"],
        other_warnings={"cost": [grave._asdict()]},
    )
    found = read_warnings(belief, ("a",), {"quality": 1.0, "cost": -1.0})
    assert [(each.reason, each.abstain) for each in found] == [
        ("quality: was never seen.", False),
        ("cost: was never seen.", True),
    ]


def test_the_first_is_ranked_alike_by_its_own_name():
    table = bandit(300).filter((pl.col("state") > 0) | (pl.col("action") > 0))
    logs = bd.Logs.from_dataframe(table, reward=["quality", "cost"])
    belief = bd.fit(logs, policies(table), gamma=0.0, rng_key=KEY)
    score = bd.scores.regret(k=1)
    given = {"unseen": "bounds", "bounds": (-1.0, 2.0)}
    plain, named = (
        bd.select(belief, score, statistic=each, **given) for each in ("value", "quality")
    )
    assert (named.order, named.notes) == (plain.order, plain.notes)
    with pytest.raises(SettingsError, match="found statistic='cost'"):
        bd.select(belief, score, statistic="cost", **given)


def test_it_goes_through_a_file(tmp_path):
    table = bandit(300)
    logs = bd.Logs.from_dataframe(table, reward=["quality", "cost"])
    belief = bd.fit(logs, policies(table), gamma=0.0, rng_key=KEY)
    bd.save_belief(belief, tmp_path / "b.nc")
    again = bd.load_belief(tmp_path / "b.nc")
    np.testing.assert_array_equal(draws(again, "cost"), draws(belief, "cost"))
    assert BeliefView(again).rewards == ["quality", "cost"]
    assert BeliefView(again).other_warnings == BeliefView(belief).other_warnings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"statistic": "cvar(0.1)"}, "expects the mean as the statistic"),
        ({"prior": [bd.Prior(value_sd=1), bd.Prior()]}, "one choice of features and prior"),
    ],
    ids=["statistic", "choice"],
)
def test_what_cannot_be_fitted_to_several_is_refused(settings, words):
    logs = bd.Logs.from_dataframe(bandit(100), reward=["quality", "cost"])
    with pytest.raises(SettingsError, match=words):
        bd.fit(logs, policies(bandit(100)), gamma=0.0, rng_key=KEY, **settings)


def test_a_reward_of_another_kind_is_named():
    table = bandit(100).with_columns(quality=(pl.col("quality") > 0.5).cast(pl.Float64))
    logs = bd.Logs.from_dataframe(table, reward=["quality", "cost"])
    with pytest.raises(LogsError, match="column 'cost': expected rewards of 0 or 1"):
        bd.fit(logs, policies(table), gamma=0.0, rng_key=KEY, prior=bd.Prior(rewards="binary"))


def test_another_method_takes_one_reward():
    logs = bd.Logs.from_dataframe(bandit(100), reward=["quality", "cost"])
    policy = bd.TabularPolicy(policies(bandit(100))["low"])
    with pytest.raises(LogsError, match=r"with_reward\('quality'\)"):
        bd.baselines.make("fqe").estimate(logs, policy, gamma=0.0, rng_key=KEY)
