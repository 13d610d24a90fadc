"""Logs of policies that follow their own rewards: found, and not taken for others."""

import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy import stats

import bayesdice_ppl as bd
from bayesdice_ppl.fitting.adaptive import follow, follow_chances, follows_rewards
from bayesdice_ppl.inference import pooled_means, weighted_values


def thompson(seed, n=600, n_actions=8, n_states=1):
    """Thompson sampling with normal rewards of variance 1 under a standard normal prior."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(n_states, n_actions)) * 0.3
    count, total = np.zeros_like(mean), np.zeros_like(mean)
    state, action, reward = rng.integers(n_states, size=n), np.empty(n, int), np.empty(n)
    for t, s in enumerate(state):
        drawn = total[s] / (count[s] + 1) + rng.normal(size=n_actions) / np.sqrt(count[s] + 1)
        a = action[t] = drawn.argmax()
        reward[t] = mean[s, a] + rng.normal()
        count[s, a] += 1
        total[s, a] += reward[t]
    return state, action, reward


def fixed(seed, n=600, n_actions=8, n_states=5):
    rng = np.random.default_rng(seed)
    state, action = rng.integers(n_states, size=n), rng.choice(n_actions, size=n)
    return state, action, 0.3 * action + 0.5 * state + rng.standard_t(3, size=n)


def test_scores_are_those_of_a_loop():
    n = 150
    state, action, reward = fixed(0, n=n, n_actions=3, n_states=2)
    score = np.zeros(n)
    for t in range(n):
        here = state == state[t]
        past = here & (np.arange(n) < t)
        mean = reward[past].mean() if past.any() else 0.0
        share = np.array([(action[here] == a).mean() for a in range(3)])
        advantage = np.array(
            [
                (reward[past & (action == a)] - mean).sum() / ((past & (action == a)).sum() + 1.0)
                for a in range(3)
            ]
        )
        score[t] = advantage[action[t]] - share @ advantage
    block = np.arange(n) * 25 // n
    sums = np.array([score[block == b].sum() / np.sqrt((block == b).sum()) for b in range(25)])
    expected = sums.mean() / stats.sem(sums)
    # The other statistic may be larger.
    assert follow(state, action, reward).score >= expected - 1e-9
    assert follow(state[:90], action[:90], reward[:90]).score == 0.0


def test_changed_shares_have_the_p_value_of_ranks():
    rng = np.random.default_rng(1)
    action = rng.integers(3, size=90)
    found = follow(np.zeros(90, int), action, rng.normal(size=90)).changed
    expected = stats.kruskal(*(np.flatnonzero(action == a) for a in range(3))).pvalue
    assert found == pytest.approx(expected, rel=1e-9)


def test_thompson_sampling_is_found_and_fixed_policies_are_not():
    found = [follow(*thompson(seed)).adaptive for seed in range(60)]
    # Measured 0.9 on other seeds.
    assert np.mean(found) > 0.7
    wrong = sum(follow(*fixed(seed)).adaptive for seed in range(150))
    # Measured 0.02 on other seeds.
    assert wrong <= stats.binom.ppf(1.0 - 1e-5, 150, 0.03)


def greedy(seed, n=1_000, n_actions=3, n_states=1, scale=0.3):
    """The best mean so far, or any action with probability 0.1, with its propensities."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(n_states, n_actions)) * scale
    count, total = np.zeros_like(mean), np.zeros_like(mean)
    state, action, reward = rng.integers(n_states, size=n), np.empty(n, int), np.empty(n)
    chance = np.empty(n)
    for t, s in enumerate(state):
        share = np.full(n_actions, 0.1 / n_actions)
        share[np.argmax(np.where(count[s] > 0, total[s] / np.maximum(count[s], 1), 9.0))] += 0.9
        a = action[t] = rng.choice(n_actions, p=share)
        reward[t], chance[t] = mean[s, a] + rng.normal(), share[a]
        count[s, a] += 1
        total[s, a] += reward[t]
    return state, action, reward, chance


def test_chances_are_those_of_a_loop():
    state, action, reward, chance = greedy(0, n=200)
    changes, moves, pairs = [], [], []
    for a in range(3):
        rows = np.flatnonzero(action == a)
        means = np.r_[0.0, np.cumsum(reward[rows]) / np.arange(1, len(rows) + 1)]
        means[0] = means[1]
        start = 0
        for i in range(1, len(rows)):
            if chance[rows[i]] != chance[rows[i - 1]]:
                # The mean before the stretch's first reward, and after its last.
                moves.append(means[i] - means[start])
                changes.append(np.log(chance[rows[i]] / chance[rows[i - 1]]))
                pairs.append(a)
                start = i
    scores = []
    for change, move in ((changes, moves), (np.sign(changes), np.sign(moves))):
        frame = pl.DataFrame({"pair": pairs, "change": change, "move": move})
        numbers = pl.col("change", "move")
        off = frame.select(numbers - numbers.mean().over("pair"))
        product = (off["change"] * off["move"]).to_numpy()
        scores.append(product.sum() / np.sqrt((product**2).sum()))
    found = follow_chances(state, action, reward, chance)
    assert found.score == pytest.approx(max(scores), rel=1e-9)
    np.testing.assert_allclose(found.fewest, 200 * chance.min())
    assert found.sound
    assert not found.fixed


def test_equal_propensities_are_a_fixed_policy_whatever_rewards_say():
    state, action, reward = thompson(1)
    assert follow(state, action, reward).adaptive
    rng = np.random.default_rng(0)
    action = rng.integers(8, size=len(state))
    chances = follow_chances(state, action, reward, np.full(len(state), 1 / 8))
    assert chances.fixed
    assert not follows_rewards(state, action, reward, np.full(len(state), 1 / 8))


def test_propensities_of_one_are_no_propensities():
    state, action, reward = thompson(1)
    chances = follow_chances(state, action, reward, np.ones(len(state)))
    assert not chances.sound
    assert follows_rewards(state, action, reward, np.ones(len(state)))


def test_a_schedule_is_not_taken_for_an_adaptive_policy():
    wrong, n = 0, 400
    for seed in range(150):
        rng = np.random.default_rng(seed)
        share = 0.2 + 0.6 * np.arange(n) / n
        action = (rng.random(n) < share).astype(int)
        reward = 0.5 * action + np.arange(n) / n + rng.normal(size=n)
        chance = np.where(action == 1, share, 1.0 - share)
        wrong += follow_chances(np.zeros(n, int), action, reward, chance).score > 2.2
    # A normal number is above 2.2 in 1.4 % of cases, and there are two of them.
    assert wrong <= stats.binom.ppf(1.0 - 1e-5, 150, 0.028)


def belief_of(n_actions, policies, **columns):
    logs = bd.Logs.from_dataframe(pl.DataFrame(columns), actions=list(range(n_actions)))
    given = {name: bd.TabularPolicy(table) for name, table in policies.items()}
    return bd.fit(logs, given, gamma=0.0, rng_key=jax.random.key(0), draws=4_000), logs


def said_of(belief):
    warnings = json.loads(belief.attrs["support_warnings"])
    return [w for w in warnings if "followed" in w["reason"]]


def test_pooled_means_are_the_belief_without_propensities():
    state, action, reward = thompson(3, n=1_500, n_actions=5, n_states=2)
    rng = np.random.default_rng(0)
    tables = {name: rng.dirichlet(np.ones(5), size=2) for name in ("a", "b")}
    belief, _ = belief_of(5, tables, state=state, action=action, reward=reward)
    assert json.loads(belief.attrs["unit"])["correction"] == "pooled"
    code = state * 5 + action
    visits = np.bincount(code).astype(float)
    mean = np.bincount(code, reward) / visits
    scatter = np.bincount(code, (reward - mean[code]) ** 2)
    pooled = pooled_means(np.repeat([0, 1], 5), visits, mean, scatter)
    share = np.bincount(state) / len(state)
    weight = np.stack([(table * share[:, None]).ravel() for table in tables.values()])
    # The states of the log are drawn, too.
    values = np.stack([(table * mean.reshape(2, 5)).sum(axis=1) for table in tables.values()])
    off = values - (values @ share)[:, None]
    covariance = weight @ pooled.covariance @ weight.T + (off * share) @ off.T / len(state)
    data = belief["constant_data"]
    sd = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(data["guide_mean"], weight @ pooled.mean, atol=0.01 * sd.min())
    np.testing.assert_allclose(data["guide_sd"], sd, rtol=0.01)
    correlation = covariance[0, 1] / sd.prod()
    assert data["correlation"].to_numpy()[0, 1] == pytest.approx(correlation, abs=0.01)
    assert len(said_of(belief)) == 2


def test_weighted_values_are_the_belief_with_propensities():
    state, action, reward, chance = greedy(4, n=1_500, scale=0.0)
    tables = {"a": [[0.2, 0.3, 0.5]], "b": [[0.6, 0.2, 0.2]]}
    belief, _ = belief_of(3, tables, state=state, action=action, reward=reward, propensity=chance)
    assert json.loads(belief.attrs["unit"])["correction"] == "weighted"
    target = np.concatenate(list(tables.values())).astype(float)
    found = weighted_values(action, reward, chance, np.zeros(3, int), target, np.ones(3))
    data, sd = belief["constant_data"], np.sqrt(np.diagonal(found.covariance))
    np.testing.assert_allclose(data["guide_mean"], found.value, atol=0.01 * sd.min())
    np.testing.assert_allclose(data["guide_sd"], sd, rtol=0.01)
    np.testing.assert_allclose(data["degrees_of_freedom"], found.effective - 1.0, rtol=1e-4)
    assert data["correlation"].to_numpy()[0, 1] == pytest.approx(
        found.covariance[0, 1] / sd.prod(), abs=0.01
    )


def test_propensities_that_leave_some_actions_no_chance_are_not_weights():
    state, action, reward, chance = greedy(4, n=120, scale=0.0)
    belief, _ = belief_of(
        3, {"a": [[0.2, 0.3, 0.5]]}, state=state, action=action, reward=reward, propensity=chance
    )
    assert json.loads(belief.attrs["unit"])["correction"] in (None, "pooled")


@pytest.mark.slow
def test_svi_sees_the_corrected_value_row():
    state, action, reward = thompson(3, n=1_000, n_actions=3)
    logs = bd.Logs.from_dataframe(
        pl.DataFrame({"state": state, "action": action, "reward": reward})
    )
    policy = {"it": bd.TabularPolicy([[0.2, 0.3, 0.5]])}
    key = jax.random.key(0)
    exact, other = (
        bd.fit(logs, policy, gamma=0.0, rng_key=key, inference=name, draws=100)["constant_data"]
        for name in ("exact", "svi")
    )
    sd = exact["guide_sd"].item()
    assert abs(other["guide_mean"].item() - exact["guide_mean"].item()) < 0.1 * sd
    assert other["guide_sd"].item() == pytest.approx(sd, rel=0.1)


def test_a_value_that_pooling_moves_far_is_abstained_from():
    # Seven arms around 0 and one, hardly tried, far below: nobody knows how far.
    rng = np.random.default_rng(2)
    mean = np.r_[np.zeros(7), -1.0]
    found = []
    for _ in range(12):
        count, total, rows = np.zeros(8), np.zeros(8), []
        for _ in range(800):
            a = np.argmax(total / (count + 1) + rng.normal(size=8) / np.sqrt(count + 1))
            reward = mean[a] + rng.normal()
            count[a], total[a] = count[a] + 1, total[a] + reward
            rows.append((0, a, reward))
        state, action, reward = (np.array(column) for column in zip(*rows, strict=True))
        worst = np.eye(8)[7:]
        belief, _ = belief_of(8, {"worst": worst}, state=state, action=action, reward=reward)
        found += [w["abstain"] for w in said_of(belief)]
    assert any(found)


def test_other_statistics_keep_the_width_of_the_possible_bias():
    state, action, reward = thompson(3, n=1_500, n_actions=5)
    logs = bd.Logs.from_dataframe(
        pl.DataFrame({"state": state, "action": action, "reward": reward})
    )
    belief = bd.fit(
        logs,
        {"uniform": bd.TabularPolicy(np.full((1, 5), 0.2))},
        gamma=0.0,
        rng_key=jax.random.key(0),
        statistic=bd.statistics.cvar(0.5),
        draws=20,
    )
    assert json.loads(belief.attrs["unit"])["correction"] is None
    assert belief["constant_data"]["error_inflation"].to_numpy()[0] > 1.2
    assert len(said_of(belief)) == 1


@pytest.mark.parametrize("paid", [1.0, 0.1, 1e-6])
def test_rewards_of_the_state_alone_say_nothing_of_actions(paid):
    # A point on a ring under uniform steps, paid in one place: all advantages are rounding.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        state = np.cumsum(rng.integers(-1, 2, size=1_500)) % 10
        action = rng.integers(3, size=1_500)
        assert follow(state, action, np.where(state == 0, paid, 0.3 * paid)).score == 0.0
