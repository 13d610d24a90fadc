"""The logging policy as one more policy of a belief: its own noise, and what it shares.

Two views share nothing with the library's. Under its own policy the log's states are a Markov
chain with rewards, so that the same log with all actions taken for one must give the same belief;
and at gamma = 0 the value is the mean reward.
"""

import json

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student_t

import bayesdice_ppl as bd
from bayesdice_ppl.constraint import small_sample_covariance
from bayesdice_ppl.errors import PoliciesError, SettingsError
from bayesdice_ppl.fitting import fit_flat
from bayesdice_ppl.inference import Nuts, one_model_posterior
from bayesdice_ppl.inference.copula import influence_covariance
from tests.marks import slow

KEY = jax.random.key(0)
FLAT = {"prior_sd": 1e3, "value_prior_sd": 1e3}
"""Priors count for each pair, of which the collapsed log has fewer; these do not count."""
CASES = [
    slow({"gamma": 0.0}),
    {"gamma": 0.9},
    slow({"gamma": 0.9, "small_sample": False}),
    slow({"gamma": 0.9, "on_termination": "absorb"}),
    slow({"gamma": 1.0}),
    slow({"gamma": 0.0, "cluster": "episode"}),
    slow({"gamma": 0.9, "cluster": "episode"}),
    slow({"gamma": 0.9, "cluster": "episode", "on_termination": "absorb"}),
    slow({"gamma": 1.0, "cluster": "episode"}),
]


def collapsed(logs):
    """The log with all actions taken for one, and the one policy there is."""
    frame = logs.to_dataframe().with_columns(pl.lit(0).alias("action"))
    states = logs.state_labels
    return bd.Logs.from_dataframe(frame), {
        "chain": bd.TabularPolicy(np.ones((len(states), 1)), states)
    }


@pytest.fixture(scope="module")
def fitted(plain):
    def fit(logs, policies, **options):
        """Mean, sd and degrees of freedom of the last policy's value, in closed form."""
        made = plain.prepare(logs, policies, inference="exact", **options)
        posterior = plain.solve(made, KEY).posterior
        sd = np.sqrt(np.sum(posterior.factor[-1, -1] ** 2))
        return posterior.mean[-1, -1], sd, float(made.problem.pilots.degrees_of_freedom[-1])

    return fit


def belief_of(logs, policies, **options):
    options = {"inference": "exact", "draws": 400, "rng_key": KEY, "include_logged": True} | options
    return fit_flat(logs, policies, **options)


def constant(belief, name):
    return belief["constant_data"][name].to_numpy()


@pytest.fixture(scope="module")
def log(plain):
    return plain.log(3, rewards="continuous")


@pytest.fixture(scope="module")
def candidates(plain):
    return plain.policies(4, 2)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_it_is_the_state_chain_of_the_log(fitted, log, candidates, options):
    options = options | FLAT
    mean, sd, df = fitted(log, candidates, include_logged=True, **options)
    expected_mean, expected_sd, expected_df = fitted(*collapsed(log), **options)
    assert abs(mean - expected_mean) < 1e-5 * expected_sd
    assert sd == pytest.approx(expected_sd, rel=1e-5)
    assert df == pytest.approx(expected_df, rel=1e-5)


@pytest.mark.slow
def test_taken_for_known_it_would_be_another_belief(fitted, log):
    """The frequencies as a candidate: the same value, without the noise of the actions."""
    frame = log.to_dataframe().with_columns(pl.col("reward") + 3.0 * pl.col("action"))
    spread = bd.Logs.from_dataframe(frame)
    counts = np.zeros((4, 2))
    np.add.at(counts, (log.state, log.action), 1.0)
    known = {"known": bd.TabularPolicy(counts / counts.sum(axis=1, keepdims=True))}
    options = {"gamma": 0.9, "small_sample": False, **FLAT}
    mean, sd, _ = fitted(spread, known, include_logged=True, **options)
    known_mean, known_sd, _ = fitted(spread, known, **options)
    assert mean == pytest.approx(known_mean, abs=1e-6)
    assert known_sd < 0.5 * sd


def rounds(seed, n, pay, pull, *, noise=0.2, states=None):
    """A contextual bandit of one-row episodes."""
    rng = np.random.default_rng(seed)
    states = np.full(len(pay), 1.0 / len(pay)) if states is None else states
    state = rng.choice(len(pay), n, p=states)
    action = np.array([rng.choice(len(pull[s]), p=pull[s]) for s in state])
    reward = pay[state, action] + noise * rng.normal(size=n)
    frame = pl.DataFrame({"state": state, "action": action, "reward": reward})
    return bd.Logs.from_dataframe(frame, actions=list(range(pay.shape[1])))


PAY = np.array([[0.1, 0.5, 0.9], [0.8, 0.2, 0.5]])
PULL = np.array([[0.5, 0.3, 0.2], [0.2, 0.4, 0.4]])


def test_of_a_bandit_it_is_the_mean_reward_with_its_standard_error(fitted):
    logs = rounds(1, 80, PAY, PULL)
    policies = {"known": bd.TabularPolicy(PULL)}
    mean, sd, _ = fitted(logs, policies, gamma=0.0, include_logged=True, small_sample=False, **FLAT)
    assert mean == pytest.approx(logs.reward.mean(), abs=1e-6)
    assert sd == pytest.approx(logs.reward.std() / np.sqrt(80), rel=1e-6)


def test_its_correlation_with_the_behavior_is_that_of_the_influences_by_hand():
    n = 300
    logs = rounds(2, n, PAY, PULL)
    belief = belief_of(
        logs, {"known": bd.TabularPolicy(PULL)}, gamma=0.0, small_sample=False, **FLAT
    )
    # Q of the log, V under each policy, and the ratio pi(a|s) n_s / n_sa at each round.
    s, a, r = logs.state, logs.action, logs.reward
    Q = np.array([[r[(s == i) & (a == j)].mean() for j in range(3)] for i in range(2)])
    n_sa = np.array([[((s == i) & (a == j)).sum() for j in range(3)] for i in range(2)])
    V = (PULL * Q).sum(axis=1)
    V_logged = np.array([r[s == i].mean() for i in range(2)])
    ratio = PULL[s, a] * n_sa.sum(axis=1)[s] / n_sa[s, a]
    # Rounds and starts are counted apart: what is left of a round has mean zero in its state.
    of_round = np.stack([ratio * (r - Q[s, a]), r - V_logged[s]])
    of_start = np.stack([V[s] - V[s].mean(), V_logged[s] - V_logged[s].mean()])
    covariance = (of_round @ of_round.T + of_start @ of_start.T) / n**2
    sd = np.sqrt(np.diagonal(covariance))
    expected = covariance[0, 1] / sd[0] / sd[1]
    assert 0.3 < expected < 0.9
    assert constant(belief, "correlation")[0, 1] == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(constant(belief, "guide_sd"), sd, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["transition", slow("episode")])
@pytest.mark.parametrize("gamma", [0.9, slow(1.0)])
def test_the_joint_belief_is_that_of_one_model_of_all_policies(
    plain, log, candidates, gamma, cluster
):
    options = {
        "gamma": gamma,
        "cluster": cluster,
        "small_sample": False,
        "inference": "exact",
        "include_logged": True,
        **FLAT,
    }
    whole = one_model_posterior(plain.prepare(log, candidates, **options).problem)
    belief = belief_of(log, candidates, **options)
    np.testing.assert_allclose(constant(belief, "correlation"), whole.correlation, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_what_few_visits_hide_joins_to_a_covariance(plain, seed):
    logs, policies = (
        plain.log(seed, n_actions=3, n_episodes=6),
        plain.policies(seed, 2, n_actions=3),
    )
    options = {"gamma": 0.9, "inference": "exact", "include_logged": True}
    with_rule = plain.prepare(logs, policies, **options).problem
    without = plain.prepare(logs, policies, small_sample=False, **options).problem
    with jax.enable_x64(True):
        cells, pilots = with_rule.cells, with_rule.pilots
        added = np.asarray(
            small_sample_covariance(cells, pilots.by_pair, pilots.error, pilots.unit)
        )
        whole = np.asarray(influence_covariance(cells, pilots, small_sample=True))
    n = float(with_rule.cells.n_transitions)
    sigmas = (np.asarray(problem.pilots.covariance)[:, -1, -1] for problem in (with_rule, without))
    expected = np.subtract(*sigmas) / n - with_rule.tails.hidden
    assert expected.min() > 0.0
    np.testing.assert_allclose(np.diagonal(added), expected, rtol=1e-6)
    assert np.linalg.eigvalsh(whole)[0] > -1e-12 * np.trace(whole)


@pytest.mark.slow
def test_coverage_over_repeated_logs_holds_and_would_not_for_known_frequencies(plain):
    """400 three-armed bandits of 60 rounds, whose arms differ more than rewards vary."""
    pay, pull = PAY[:1], PULL[:1]
    truth = float((pay * pull).sum())
    off = []
    for seed in range(400):
        logs = rounds(seed, 60, pay, pull)
        counts = np.bincount(logs.action, minlength=3)
        assert counts.min() > 0
        known = {"known": bd.TabularPolicy(counts[None] / 60)}
        made = plain.prepare(logs, known, gamma=0.0, inference="exact", include_logged=True)
        posterior = plain.solve(made, KEY).posterior
        sd = np.sqrt(np.sum(posterior.factor[:, -1] ** 2, axis=-1))
        df = np.asarray(made.problem.pilots.degrees_of_freedom)
        off.append(student_t.cdf((truth - posterior.mean[:, -1]) / sd, df))
    inside = np.abs(np.array(off) - 0.5)
    for nominal in (0.5, 0.8, 0.95):
        known, logged = np.mean(inside < nominal / 2, axis=0)
        error = np.sqrt(nominal * (1.0 - nominal) / 400)
        assert abs(logged - nominal) < 4.0 * error
        assert known < nominal - 4.0 * error


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [slow(0.0), 0.9])
def test_svi_agrees_with_the_closed_form(log, candidates, gamma):
    exact, svi = (
        belief_of(log, candidates, inference=engine, gamma=gamma) for engine in ("exact", "svi")
    )
    sd = constant(exact, "guide_sd")
    off = constant(svi, "guide_mean") - constant(exact, "guide_mean")
    assert np.abs(off / sd).max() < 0.02
    np.testing.assert_allclose(constant(svi, "guide_sd"), sd, rtol=0.02)


@pytest.mark.slow
def test_nuts_agrees_with_the_closed_form(log, candidates):
    exact = belief_of(log, candidates, gamma=0.9)
    sampler = {"inference": Nuts(chains=2, warmup=500), "draws": 2000}
    nuts = belief_of(log, candidates, gamma=0.9, **sampler)
    ess, sd = constant(nuts, "effective_draws"), constant(exact, "guide_sd")
    assert ess.min() > 100.0
    off = constant(nuts, "guide_mean") - constant(exact, "guide_mean")
    assert np.all(np.abs(off) < 5.0 * sd / np.sqrt(ess))
    assert np.all(np.abs(constant(nuts, "guide_sd") / sd - 1.0) < 5.0 / np.sqrt(2.0 * ess))


@pytest.mark.slow
@pytest.mark.parametrize("statistic", [slow(bd.statistics.cvar(0.3)), bd.statistics.quantile(0.5)])
def test_other_statistics_are_those_of_the_state_chain(log, candidates, statistic):
    options = {"gamma": 0.9, "statistic": statistic, "draws": 2000, **FLAT}
    found = belief_of(log, candidates, **options)["posterior/value"].to_numpy()[0, :, -1]
    chain, policy = collapsed(log)
    options |= {"include_logged": False}
    expected = belief_of(chain, policy, **options)["posterior/value"].to_numpy()[0, :, 0]
    sd = expected.std()
    # Two samples of 2,000 draws each.
    assert abs(found.mean() - expected.mean()) < 5.0 * sd * np.sqrt(2.0 / 2000)
    assert found.std() == pytest.approx(sd, rel=5.0 * np.sqrt(1.0 / 2000))


@pytest.mark.slow
def test_several_statistics_are_in_one_belief_of_all_policies(log, candidates):
    belief = belief_of(log, candidates, gamma=0.9, statistic=["mean", bd.statistics.cvar(0.3)])
    assert belief["posterior"].policy.to_numpy().tolist() == ["p0", "p1", "logged"]
    both = [belief["posterior"][name].to_numpy()[0] for name in ("mean", "cvar(0.3)")]
    alone = belief_of(log, candidates, gamma=0.9)
    np.testing.assert_allclose(both[0].mean(axis=0), constant(alone, "guide_mean"), atol=0.01)
    assert np.corrcoef(both[0][:, -1], both[1][:, -1])[0, 1] > 0.3


@pytest.mark.slow
def test_rows_that_are_left_out_are_not_counted(fitted, log, candidates):
    frame = log.to_dataframe().drop("next_state")
    part = bd.Logs.from_dataframe(frame)
    mean, sd, _ = fitted(part, candidates, gamma=0.9, include_logged=True, **FLAT)
    expected_mean, expected_sd, _ = fitted(*collapsed(part), gamma=0.9, **FLAT)
    belief = belief_of(part, candidates, gamma=0.9)
    assert belief.attrs["rows_left_out"] > 0
    assert abs(mean - expected_mean) < 1e-5 * expected_sd
    assert sd == pytest.approx(expected_sd, rel=1e-5)


def test_a_state_without_actions_is_lost_mass_as_for_a_candidate():
    rows = [(e, t, t, (e + t) % 2, float(e % 5 + t), t + 1) for e in range(20) for t in range(3)]
    names = ["episode_id", "step", "state", "action", "reward", "next_state"]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))
    even = {"even": bd.TabularPolicy(np.full((4, 2), 0.5))}
    belief = belief_of(logs, even, gamma=0.9)
    # Three steps are known, and 0.9^3 of the discounted weight comes after them.
    np.testing.assert_allclose(constant(belief, "lost_mass"), 0.9**3, rtol=1e-3)
    warned = json.loads(belief.attrs["support_warnings"])
    assert {"even", "logged"} == {
        w["policy"] for w in warned if "none of its actions" in w["reason"]
    }


def test_frequencies_that_are_given_as_a_candidate_are_another_policy(log):
    counts = np.zeros((4, 2))
    np.add.at(counts, (log.state, log.action), 1.0)
    known = {"known": bd.TabularPolicy(counts / counts.sum(axis=1, keepdims=True))}
    belief = belief_of(log, known, gamma=0.9)
    value, sd = belief["posterior/value"].to_numpy()[0], constant(belief, "guide_sd")
    # Its own actions are part of the logging policy's noise, but not of the candidate's.
    assert np.any(value[:, 0] != value[:, 1])
    assert abs(sd[1] / sd[0] - 1.0) > 0.01


def test_a_log_of_one_action_in_each_state_shares_draws_with_that_policy():
    rng = np.random.default_rng(0)
    state = rng.integers(3, size=60)
    frame = pl.DataFrame({"state": state, "action": state % 2, "reward": rng.normal(size=60)})
    logs = bd.Logs.from_dataframe(frame)
    same = {"same": bd.TabularPolicy(np.eye(2)[np.arange(3) % 2])}
    value = belief_of(logs, same, gamma=0.0)["posterior/value"].to_numpy()[0]
    np.testing.assert_array_equal(value[:, 0], value[:, 1])


def test_the_candidates_keep_the_belief_that_they_have_without_it(log, candidates):
    alone = belief_of(log, candidates, gamma=0.9, include_logged=False)
    beside = belief_of(log, candidates, gamma=0.9)
    assert "logged_policy" not in alone.attrs
    assert beside.attrs["logged_policy"] == "logged"
    assert beside["posterior"].policy.to_numpy().tolist() == [*candidates, "logged"]
    for name in ("guide_mean", "guide_sd", "degrees_of_freedom", "lost_mass"):
        np.testing.assert_allclose(constant(beside, name)[:2], constant(alone, name), rtol=1e-9)
    np.testing.assert_allclose(
        constant(beside, "correlation")[:2, :2], constant(alone, "correlation"), rtol=1e-9
    )


@pytest.mark.parametrize("options", [{"preset": "paper"}, {"joint": False}], ids=str)
def test_it_may_be_independent_of_the_candidates(log, candidates, options):
    belief = belief_of(log, candidates, gamma=0.9, draws=2000, **options)
    np.testing.assert_array_equal(constant(belief, "correlation"), np.eye(3))
    correlation = np.corrcoef(belief["posterior/value"].to_numpy()[0].T)
    assert np.abs(correlation - np.eye(3)).max() < 5.0 / np.sqrt(2000)


@pytest.mark.slow
def test_the_prior_is_chosen_for_the_candidates_alone(log, candidates):
    choice = {"gamma": 0.9, "rng_key": KEY, "prior": [bd.Prior(1.0), bd.Prior(10.0)]}
    choice |= {"inference": "exact", "draws": 400}
    tables = [
        bd.fit(log, candidates, include_logged=include, **choice).attrs["regularization"]
        for include in (False, True)
    ]
    assert tables[0] == tables[1]


def test_a_diagnosis_takes_it_for_the_self_check(log, candidates):
    belief = belief_of(log, candidates, gamma=0.9)
    mean = constant(belief, "guide_mean")[-1]
    message = {c.name: c.message for c in bd.diagnose(belief, log).checks}["self-check"]
    assert f"is worth {mean:.4g};" in message
    moved = belief.copy(deep=True)
    moved["constant_data"]["guide_mean"][-1] = mean + 100.0
    message = {c.name: c.message for c in bd.diagnose(moved, log).checks}["self-check"]
    assert f"is worth {mean + 100.0:.4g};" in message


def test_a_candidate_of_that_name_is_refused(log, candidates):
    policies = {"logged": candidates["p0"]}
    with pytest.raises(PoliciesError, match="expected no candidate named 'logged'"):
        belief_of(log, policies, gamma=0.9)
    found = belief_of(log, policies, gamma=0.9, include_logged=False)
    assert found["posterior"].policy.to_numpy().tolist() == ["logged"]


def test_features_and_vectors_are_refused_with_what_to_do(log, candidates):
    features = bd.features.polynomial(1)
    for given in (features, [bd.features.one_hot(), features]):
        with pytest.raises(SettingsError, match=r"polynomial.*as a candidate instead"):
            bd.fit(log, candidates, gamma=0.9, rng_key=KEY, features=given, include_logged=True)
    frame = log.to_dataframe()
    vectors = bd.Logs.from_dataframe(
        frame.with_columns(obs_0=pl.col("state") * 1.0, next_obs_0=pl.col("next_state") * 1.0).drop(
            "state", "next_state"
        ),
        actions=[0, 1],
    )
    for given in (None, bd.features.one_hot()):
        with pytest.raises(SettingsError, match=r"states are vectors.*as a candidate instead"):
            belief_of(vectors, candidates, gamma=0.9, features=given)


def test_it_is_asked_for_by_true_or_false(log, candidates):
    with pytest.raises(SettingsError, match="include_logged: expected True or False"):
        belief_of(log, candidates, gamma=0.9, include_logged="yes")
