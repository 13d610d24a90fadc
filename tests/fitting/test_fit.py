"""The whole way from logs to a belief, against dense NumPy computations of their own."""

import inspect

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import LogsError, PoliciesError, SettingsError
from bayesdice_ppl.fitting import fit_flat
from tests.marks import slow

KEY = jax.random.key(0)


def posterior_by_hand(oracle, *, by_episode=False, prior_sd=10.0):
    """Two steps: Sigma at a ratio of one, the pilot, Sigma there, and conditioning once more."""
    mean, scale = oracle.prior(prior_sd, rare_share=0.1)
    P0 = np.diag(scale**2)
    weights = np.ones(len(oracle.pairs))
    for _ in range(2):
        V = oracle.covariance(weights, by_episode=by_episode) / oracle.n
        innovation = oracle.G @ P0 @ oracle.G.T + V
        unit = 1.0 / np.sqrt(np.where(np.diag(innovation) > 0, np.diag(innovation), 1.0))
        inverse = np.linalg.pinv(innovation * unit[:, None] * unit, rcond=1e-12, hermitian=True)
        K = P0 @ oracle.G.T @ (inverse * unit[:, None] * unit)
        found = mean - K @ (oracle.G @ mean + oracle.c)
        covariance = P0 - K @ oracle.G @ P0
        weights = found[:-1] * oracle.active
    return found, np.sqrt(np.maximum(np.diag(covariance), 0.0))


@pytest.mark.parametrize(
    ("gamma", "restart", "cluster"),
    [(0.9, True, "transition"), (0.9, False, "episode"), (1.0, True, "episode")],
    ids=str,
)
def test_closed_form_is_the_two_step_posterior_of_a_plain_computation(
    plain, gamma, restart, cluster
):
    logs = plain.log(41, rewards="continuous")
    policies = plain.policies(42, 2)
    belief = bd.fit(
        logs,
        policies,
        gamma=gamma,
        rng_key=KEY,
        inference="exact",
        constraint=bd.Constraint(small_sample=False),
        on_termination="restart" if restart else "absorb",
        cluster=cluster,
        draws=100,
    )
    found = belief["constant_data"]
    for j, name in enumerate(policies):
        oracle = plain.problem(logs, policies[name], gamma=gamma, restart=restart)
        mean, sd = posterior_by_hand(oracle, by_episode=cluster == "episode")
        assert abs(float(found.guide_mean[j]) - mean[-1]) < 1e-5 * sd[-1]
        assert float(found.guide_sd[j]) == pytest.approx(sd[-1], rel=1e-4)


@pytest.fixture(scope="module")
def partly_logged(plain):
    """A log in which one policy takes unlogged actions, and one avoids whole states."""
    rng = np.random.default_rng(6)
    rows = []
    for episode in range(40):
        state = "hall"
        for step in range(5):
            logged = {"hall": "lr", "left": "l", "right": "lr"}[state]
            action = logged[int(rng.integers(len(logged)))]
            following = {"l": "left", "r": "right"}[action] if rng.random() < 0.8 else "hall"
            rows.append((episode, step, state, action, float(rng.random()), following))
            state = following
    names = ["episode_id", "step", "state", "action", "reward", "next_state"]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
    states, actions = ["hall", "left", "right"], ["l", "r"]
    tables = {
        "mixed": [[0.5, 0.5], [0.7, 0.3], [0.2, 0.8]],
        "leftist": [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
    }
    policies = bd.Policies(
        {name: bd.TabularPolicy(table, states, actions) for name, table in tables.items()}
    )
    belief = bd.fit(
        logs,
        policies,
        gamma=0.8,
        rng_key=KEY,
        inference="exact",
        constraint=bd.Constraint(small_sample=False),
        prior=bd.Prior(unseen="moved"),
        draws=200,
    )
    return logs, policies, belief


def test_policies_are_renormalized_over_logged_actions(plain, partly_logged):
    logs, policies, belief = partly_logged
    for j, name in enumerate(policies):
        oracle = plain.problem(logs, policies[name], gamma=0.8)
        mean, sd = posterior_by_hand(oracle)
        assert abs(float(belief["constant_data"].guide_mean[j]) - mean[-1]) < 1e-5 * sd[-1]
        assert float(belief["constant_data"].guide_sd[j]) == pytest.approx(sd[-1], rel=1e-4)


def test_pairs_that_a_policy_never_visits_have_ratio_zero_in_every_draw(partly_logged):
    _, _, belief = partly_logged
    weights = belief["posterior/weights"].sel(policy="leftist")
    pairs = [str(name) for name in weights.pair.values]
    visited = weights.std(("chain", "draw")).values > 0
    assert dict(zip(pairs, visited.tolist(), strict=True)) == {
        "hall, l": True,
        "hall, r": False,
        "left, l": True,
        "right, l": False,
        "right, r": False,
    }
    assert (weights.values[..., ~visited] == 0.0).all()


@pytest.fixture(scope="module")
def open_bandit():
    data = bd.datasets.open_bandit()
    return data, bd.fit(data.logs, data.policies, gamma=0.0, rng_key=jax.random.key(20))


def tabular_influences(logs, policy):
    """Estimate and influences of a one-step policy, from means of rewards per pair."""
    states = logs.state_labels[logs.state].tolist()
    actions = logs.action_labels[logs.action].tolist()
    rewards, seen = {}, {}
    for s, a, r in zip(states, actions, logs.reward, strict=True):
        rewards.setdefault((s, a), []).append(r)
        seen[s] = seen.get(s, 0) + 1
    q = {pair: sum(r) / len(r) for pair, r in rewards.items()}
    prob = dict(
        zip(
            [(s, a) for s in policy.states.tolist() for a in policy.actions.tolist()],
            policy.probabilities.ravel().tolist(),
            strict=True,
        )
    )
    v = {s: sum(prob[s, a] * q[s, a] for t, a in q if t == s) for s in seen}
    n = len(states)
    value = sum(v[s] for s in states) / n
    influence = [
        prob[s, a] * seen[s] / len(rewards[s, a]) * (r - q[s, a])
        for s, a, r in zip(states, actions, logs.reward, strict=True)
    ]
    # With episodes of one step, the noise of rewards and that of states add.
    return value, np.array(influence), np.array([v[s] - value for s in states])


def test_open_bandit_means_and_sds_are_the_published_ones(open_bandit):
    _, belief = open_bandit
    found = belief["constant_data"]
    expected = {
        "uniform": (0.00456, 0.00067),
        "bts": (0.00567, 0.00141),
        "bts_sharp": (0.00583, 0.00195),
    }
    for name, (mean, sd) in expected.items():
        one = found.sel(policy=name)
        assert abs(float(one.guide_mean) - mean) < 1e-4
        assert abs(float(one.guide_sd) / sd - 1.0) < 0.1
        draws = belief["posterior/value"].sel(policy=name).values
        # Clicks are one in two hundred: half a click more than was seen, as for a Gamma.
        shift = 0.5 * float(one.skewness) * sd
        assert abs(draws.mean() - mean - shift) < 1e-4
        assert abs(draws.std() / sd - 1.0) < 0.1


def test_open_bandit_belief_is_the_tabular_estimate_with_its_influences(open_bandit):
    data, belief = open_bandit
    found = belief["constant_data"]
    influences = []
    for name in data.policies:
        value, reward_part, state_part = tabular_influences(data.logs, data.policies[name])
        n = len(reward_part)
        variance = (reward_part @ reward_part + state_part @ state_part) / n**2
        influences.append((reward_part, state_part))
        one = found.sel(policy=name)
        assert abs(float(one.guide_mean) - value) < 0.03 * np.sqrt(variance)
        # Pairs that were tried some hundred times: the small-sample rule widens by a percent. That
        # those without a click share the spread of the others widens by up to five more.
        assert 1.0 < float(one.guide_sd) / np.sqrt(variance) < 1.06
    rewards, states = (np.array(part) for part in zip(*influences, strict=True))
    covariance = rewards @ rewards.T + states @ states.T
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(
        found.correlation.values, covariance / sd[:, None] / sd, rtol=0, atol=0.005
    )


def test_open_bandit_correlations_are_the_published_ones(open_bandit):
    _, belief = open_bandit
    value = belief["posterior/value"]
    for one, other, expected in (("bts", "bts_half", 0.96), ("bts_sharp", "anti_bts", 0.03)):
        given = float(belief["constant_data/correlation"].sel(policy=one, other_policy=other))
        pair = [value.sel(policy=name).values.ravel() for name in (one, other)]
        assert abs(given - expected) < 0.03
        assert abs(np.corrcoef(pair)[0, 1] - expected) < 0.03


TABLES = {"twin": [[0.9, 0.1]], "other": [[0.2, 0.8]], "same": [[0.9, 0.1]]}


@pytest.fixture(scope="module")
def bandit(plain):
    rng = np.random.default_rng(12)
    pulls = [(int(a), float(rng.random() < (0.7, 0.3)[a])) for a in rng.integers(2, size=60)]
    logs = plain.bandit(pulls)
    policies = bd.Policies({name: bd.TabularPolicy(table) for name, table in TABLES.items()})

    def fit(rng_key=KEY, policies=policies, **options):
        options = {"gamma": 0.0, "inference": "exact", **options}
        return bd.fit(logs, policies, rng_key=rng_key, **options)

    return pulls, fit


def test_one_candidate_under_two_names_gets_one_belief(bandit):
    _, fit = bandit
    value = fit()["posterior/value"]
    one, other = value.sel(policy="twin").values, value.sel(policy="same").values
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.999
    np.testing.assert_array_equal(one, other)


def test_the_same_key_gives_the_same_belief(bandit):
    _, fit = bandit
    one, again = fit(), fit()
    for group in ("posterior", "sample_stats", "constant_data", "observed_data"):
        assert one[group].to_dataset().equals(again[group].to_dataset())
    assert one.attrs == again.attrs


def test_another_key_gives_other_draws_of_the_same_posterior(bandit):
    _, fit = bandit
    one, other = fit(), fit(jax.random.key(1))
    assert (one["posterior/value"].values != other["posterior/value"].values).all()
    np.testing.assert_array_equal(
        one["constant_data/guide_mean"], other["constant_data/guide_mean"]
    )


def test_raw_and_typed_keys_are_the_same_key(bandit):
    _, fit = bandit
    one, other = fit(), fit(jax.random.PRNGKey(0))
    np.testing.assert_array_equal(one["posterior/value"].values, other["posterior/value"].values)


@pytest.mark.parametrize(
    "key",
    [0, None, "0", np.zeros(2), jax.random.split(jax.random.key(0), 2), np.zeros((2, 2), "uint32")],
    ids=["int", "none", "text", "floats", "two keys", "two raw keys"],
)
def test_anything_but_one_key_is_refused(bandit, key):
    _, fit = bandit
    with pytest.raises(SettingsError, match="rng_key: expected one key"):
        fit(key)


def test_independent_candidates_have_no_correlation_but_chance(bandit):
    _, fit = bandit
    belief = fit(joint=False)
    value = belief["posterior/value"].values[0]
    found = np.corrcoef(value.T) - np.eye(3)
    assert (np.abs(found) < 5 / np.sqrt(len(value))).all()
    np.testing.assert_array_equal(belief["constant_data/correlation"], np.eye(3))


def test_a_plain_dict_of_objects_does_as_well_as_a_table(bandit):
    _, fit = bandit

    class Bound:
        def __init__(self, table):
            self.table = np.array(table)

        def probs(self, obs):
            return self.table[np.asarray(obs)]

    one = fit()
    other = fit(policies={name: Bound(table) for name, table in TABLES.items()})
    np.testing.assert_array_equal(one["posterior/value"], other["posterior/value"])


def test_draws_setting_is_the_number_of_draws(bandit):
    _, fit = bandit
    belief = fit(draws=37)
    assert belief["posterior/value"].shape == (1, 37, 3)
    assert belief["posterior/weights"].shape == (1, 37, 3, 2)
    assert belief["sample_stats/loss"].shape == (1, 37, 3)


def test_small_sample_rule_widens_the_sd_as_the_rule_says(bandit):
    pulls, fit = bandit
    wide, plain_sd = (
        fit(constraint=bd.Constraint(small_sample=on))["constant_data/guide_sd"].values
        for on in (True, False)
    )
    n = len(pulls)
    groups = [np.array([r for a, r in pulls if a == arm]) for arm in (0, 1)]
    scatter = np.array([g.var() * len(g) for g in groups])
    visits = np.array([len(g) for g in groups])
    pool = scatter.sum() / (n - 2)
    target = np.array([0.9, 0.1])
    v = target**2 * (scatter + 2 * pool) / (visits + 1) / visits
    extra = max(0.0, v.sum() - (target**2 * scatter / visits**2).sum())
    assert wide[0] ** 2 - plain_sd[0] ** 2 == pytest.approx(extra, rel=0.01)


def ridge_by_hand(oracle, prior_sd=10.0):
    """The paper's form: |g|^2 / 2 at price n under N(1, prior_sd^2), and value = mean zeta r."""
    G, c = oracle.G[:-1, :-1], oracle.c[:-1]
    p = len(oracle.pairs)
    precision = np.eye(p) / prior_sd**2 + oracle.n * G.T @ G
    covariance = np.linalg.inv(precision)
    mean = covariance @ (np.ones(p) / prior_sd**2 - oracle.n * G.T @ c)
    reward = oracle.G[-1, :-1]
    return mean, reward @ mean, np.sqrt(reward @ covariance @ reward)


@pytest.mark.parametrize("gamma", [0.9, slow(1.0)])
def test_preset_paper_is_ridge_regression(plain, gamma):
    logs, policies = plain.log(51, rewards="continuous"), plain.policies(52, 2)
    belief = bd.fit(
        logs, policies, gamma=gamma, rng_key=KEY, inference="exact", preset="paper", draws=2000
    )
    found = belief["constant_data"]
    for j, name in enumerate(policies):
        oracle = plain.problem(logs, policies[name], gamma=gamma)
        weights, mean, sd = ridge_by_hand(oracle)
        assert float(found.guide_mean[j]) == pytest.approx(mean, abs=1e-8 * sd)
        assert float(found.guide_sd[j]) == pytest.approx(sd, rel=1e-8)
        draws = belief["posterior/weights"].values[0, :, j]
        off = np.abs(draws.mean(axis=0) - weights)
        assert (off < 5 * draws.std(axis=0) / np.sqrt(2000)).all()
        # The value of a draw is its own ratio times the rewards; weights are kept as float32.
        np.testing.assert_allclose(
            belief["posterior/value"].values[0, :, j],
            draws @ oracle.G[-1, :-1],
            rtol=0,
            atol=1e-5 * np.abs(draws).max(),
        )


def test_preset_paper_by_svi_is_the_same_ridge_regression(plain):
    logs, policies = plain.log(51, rewards="continuous"), plain.policies(52, 2)
    belief = bd.fit(logs, policies, gamma=0.9, rng_key=KEY, preset="paper", draws=100)
    for j, name in enumerate(policies):
        _, mean, sd = ridge_by_hand(plain.problem(logs, policies[name], gamma=0.9))
        assert abs(float(belief["constant_data"].guide_mean[j]) - mean) < 0.03 * sd
        assert float(belief["constant_data"].guide_sd[j]) == pytest.approx(sd, rel=0.03)


@pytest.fixture
def short_log():
    """Two steps per episode and no successors: the second step cannot be used at gamma > 0."""
    return bd.Logs.from_dataframe(
        pl.DataFrame(
            {
                "episode_id": [0, 0, 1, 1, 2, 2],
                "state": ["a", "b", "a", "b", "a", "b"],
                "action": [0, 1, 1, 0, 1, 1],
                "reward": [0.0, 1.0, 0.5, 0.2, 0.1, 0.7],
                "terminated": [False, True, False, False, False, False],
            }
        )
    )


def test_rows_without_a_successor_are_left_out_and_counted(short_log):
    policies = {"p": bd.TabularPolicy([[0.5, 0.5], [0.1, 0.9]], ["a", "b"])}
    with pytest.raises(PoliciesError):
        bd.fit(short_log, {"p": bd.TabularPolicy([[0.5, 0.5]], ["a"])}, gamma=0.5, rng_key=KEY)
    belief = bd.fit(short_log, policies, gamma=0.5, rng_key=KEY, inference="exact", draws=10)
    assert belief.attrs["rows_left_out"] == 3
    assert belief.attrs["steps_left_out"] == "[1]"
    assert belief["observed_data/reward"].values.tolist() == [0.0, 0.5, 0.1]


def test_a_log_of_single_steps_needs_gamma_zero_or_successors(plain):
    logs = plain.bandit([(0, 1.0), (1, 0.0)])
    policies = {"p": bd.TabularPolicy([[0.5, 0.5]])}
    with pytest.raises(LogsError, match="next_state"):
        bd.fit(logs, policies, gamma=0.9, rng_key=KEY)


def test_settings_are_checked_before_the_work(plain):
    logs = plain.bandit([(0, 1.0), (1, 0.0)])
    with pytest.raises(SettingsError, match="gamma"):
        bd.fit(logs, {"p": bd.TabularPolicy([[0.5, 0.5]])}, gamma=2.0, rng_key=KEY)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_rewards_in_another_unit_give_the_same_belief_in_that_unit(plain, scale):
    logs, policies = plain.log(4, rewards="continuous"), plain.policies(4, 2)
    frame = logs.to_dataframe()
    scaled = bd.Logs.from_dataframe(frame.with_columns(frame["reward"] * scale))
    options = {"gamma": 0.9, "rng_key": jax.random.key(0), "draws": 50}
    here, there = (bd.fit(one, policies, **options) for one in (logs, scaled))
    for name in ("guide_mean", "guide_sd"):
        expected = here[f"constant_data/{name}"].values * scale
        np.testing.assert_allclose(there[f"constant_data/{name}"].values, expected, rtol=1e-3)


@pytest.mark.parametrize("gamma", [0.0, slow(0.99), 0.999999, 1.0])
@pytest.mark.parametrize("inference", [slow("svi"), "exact"])
def test_adding_a_constant_to_all_rewards_moves_the_belief_and_nothing_else(
    plain, gamma, inference
):
    logs, policies = plain.log(4, rewards="continuous"), plain.policies(4, 2)
    frame = logs.to_dataframe()
    shifted = bd.Logs.from_dataframe(frame.with_columns(frame["reward"] + 1e4))
    options = {"gamma": gamma, "rng_key": jax.random.key(0), "inference": inference}
    here, there = (bd.fit(one, policies, draws=50, **options) for one in (logs, shifted))
    sd = here["constant_data/guide_sd"].values
    moved = there["constant_data/guide_mean"].values - 1e4
    assert np.abs((moved - here["constant_data/guide_mean"].values) / sd).max() < 1e-2
    np.testing.assert_allclose(there["constant_data/guide_sd"].values, sd, rtol=1e-3)


def test_disconnected_states_at_gamma_1_are_not_recommended_on():
    rows = [
        {
            "episode_id": e,
            "step": t,
            "state": e % 2,
            "action": (e // 2 + t) % 2,
            "reward": 10.0 * (e % 2) + t % 2,
        }
        for e in range(20)
        for t in range(10)
    ]
    policies = bd.Policies(
        {"a": bd.TabularPolicy([[0.9, 0.1]] * 2), "b": bd.TabularPolicy([[0.1, 0.9]] * 2)}
    )
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows))
    belief = bd.fit(logs, policies, gamma=1.0, rng_key=jax.random.key(0), inference="exact")
    assert not bd.select(belief, bd.scores.regret(k=1)).recommended


def test_rewards_that_never_vary_within_a_pair_are_not_recommended_on():
    frame = pl.DataFrame({"state": [0] * 24, "action": [0, 1] * 12, "reward": [0.0, 1.0] * 12})
    policies = bd.Policies(
        {"a": bd.TabularPolicy([[0.2, 0.8]]), "b": bd.TabularPolicy([[0.8, 0.2]])}
    )
    logs = bd.Logs.from_dataframe(frame)
    belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(0), inference="exact")
    choice = bd.select(belief, bd.scores.regret(k=1))
    assert not choice.recommended
    assert "no width" in " ".join(choice.reasons)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_rewards_past_double_precision_are_refused(size):
    frame = pl.DataFrame({"state": [0] * 6, "action": [0, 1] * 3, "reward": [0.0, size] * 3})
    with pytest.raises(LogsError, match=r"row 2, column 'reward'.*Rescale"):
        bd.Logs.from_dataframe(frame)


def test_priors_past_double_precision_are_refused(plain):
    with pytest.raises(SettingsError, match="finite"):
        bd.fit(
            plain.log(4),
            plain.policies(4, 2),
            gamma=0.9,
            rng_key=jax.random.key(0),
            inference="exact",
            prior=bd.Prior(ratio_sd=1e300),
        )


def test_episodes_as_the_unit_need_episodes(plain):
    logs, policies = plain.log(4), plain.policies(4, 2)
    few = bd.Logs.from_dataframe(logs.to_dataframe().filter(pl.col("episode_id") < 3))
    with pytest.raises(LogsError, match="episodes"):
        bd.fit(few, policies, gamma=0.9, rng_key=jax.random.key(0), cluster="episode")


def test_svi_that_did_not_converge_says_so(plain):
    logs, policies = plain.log(4), plain.policies(4, 2)
    belief = bd.fit(
        logs,
        policies,
        gamma=0.9,
        rng_key=jax.random.key(0),
        inference=bd.inference.Svi(windows=2, steps=20),
    )
    choice = bd.select(belief, bd.scores.regret(k=1))
    assert not choice.recommended
    assert "not converged" in " ".join(choice.reasons)


def test_flat_settings_give_the_very_same_belief(bandit):
    """The command line and a stored belief have all settings on one level of names."""
    pulls, fit = bandit
    grouped = fit(
        prior=bd.Prior(ratio_sd=3.0),
        constraint=bd.Constraint(xi=0.9, small_sample=False),
        draws=100,
    )
    arms, rewards = zip(*pulls, strict=True)
    frame = pl.DataFrame({"state": [0] * len(arms), "action": arms, "reward": rewards})
    flat = fit_flat(
        bd.Logs.from_dataframe(frame, actions=[0, 1]),
        bd.Policies({name: bd.TabularPolicy(table) for name, table in TABLES.items()}),
        gamma=0.0,
        rng_key=KEY,
        inference="exact",
        prior_sd=3.0,
        xi=0.9,
        small_sample=False,
        draws=100,
    )
    np.testing.assert_array_equal(flat["posterior/value"], grouped["posterior/value"])
    assert flat.attrs["settings"] == grouped.attrs["settings"]


MOVED = {
    "prior_sd": "prior=bd.Prior(ratio_sd=...)",
    "value_prior_sd": "prior=bd.Prior(value_sd=...)",
    "penalty": "constraint=bd.Constraint(penalty=...)",
    "surrogate": "constraint=bd.Constraint(surrogate=...)",
    "lam": "constraint=bd.Constraint(lam=...)",
    "epsilon": "constraint=bd.Constraint(epsilon=...)",
    "xi": "constraint=bd.Constraint(xi=...)",
    "value_constraint": "constraint=bd.Constraint(value_constraint=...)",
    "small_sample": "constraint=bd.Constraint(small_sample=...)",
    "normalization": "constraint=bd.Constraint(normalization=...)",
    "inner": "constraint=bd.Constraint(inner=...)",
    "action_draws": "numerics=bd.Numerics(action_draws=...)",
    "folds": "numerics=bd.Numerics(folds=...)",
    "link": "model=bd.models.linear(link=...)",
    "svi": "inference=bd.inference.Svi(...)",
    "nuts": "inference=bd.inference.Nuts(...)",
}


@pytest.mark.parametrize("function", ["fit", "prepare"])
@pytest.mark.parametrize("name", MOVED)
def test_a_setting_that_has_moved_is_refused_with_its_new_place(plain, function, name):
    logs, policies = plain.bandit([(0, 1.0), (1, 0.0)]), {"p": bd.TabularPolicy([[0.5, 0.5]])}
    with pytest.raises(SettingsError) as caught:
        getattr(bd, function)(logs, policies, gamma=0.0, rng_key=KEY, **{name: None})
    place = MOVED[name]
    expected = f"{name}: this setting has moved; write {function}(..., {place})."
    assert str(caught.value) == expected
    # The place is one that exists.
    group, call = place.split("=", 1)
    kind = call.removeprefix("bd.").split("(")[0]
    found = bd
    for part in kind.split("."):
        found = getattr(found, part)
    assert group in inspect.signature(bd.fit).parameters
    field = call.split("(", 1)[1].removesuffix("=...)")
    assert field in inspect.signature(found).parameters or field == "...)"


def test_what_never_was_a_setting_is_refused_as_python_does(plain):
    logs, policies = plain.bandit([(0, 1.0), (1, 0.0)]), {"p": bd.TabularPolicy([[0.5, 0.5]])}
    for function in (bd.fit, bd.prepare):
        with pytest.raises(TypeError, match="unexpected keyword argument 'lambda_'"):
            function(logs, policies, gamma=0.0, rng_key=KEY, lambda_=3.0)
