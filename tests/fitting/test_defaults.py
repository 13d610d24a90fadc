"""Which features, model, engine and logging policy a log gets, and what a user's choice changes."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.fitting import settings_for
from bayesdice_ppl.fitting.action_ratio import MOST, action_ratios
from bayesdice_ppl.fitting.prepare import read_inputs
from bayesdice_ppl.fitting.warnings import many_features, no_mode, wrong_weights
from tests.linear_world import GAMMA, POLICIES, TRUTH, chain_log, gaussian

LOGGING = gaussian(0.2, 0.0, 1.0)


def with_density(logs):
    """The same log with the density of each action as its propensity."""
    frame = logs.to_dataframe()
    density = np.exp(LOGGING.log_prob(logs.state_labels[logs.state], logs.action_vector))
    return bd.Logs.from_dataframe(frame.with_columns(propensity=pl.Series(np.asarray(density))))


@pytest.fixture(scope="module")
def plain_log():
    return chain_log(1, n_episodes=20, n_steps=10)


@pytest.fixture(scope="module")
def known_log(plain_log):
    return with_density(plain_log)


@pytest.mark.parametrize(
    ("gamma", "given", "expected"),
    [
        (GAMMA, {}, ("logged", "linear(link=exp)", "laplace", "of='state'")),
        (GAMMA, {"inference": "laplace"}, ("logged", "linear(link=exp)", "laplace", "of='state'")),
        (GAMMA, {"inference": "auto"}, ("logged", "linear(link=exp)", "laplace", "of='state'")),
        (0.0, {}, ("logged", "linear", "exact", "of='both'")),
        (GAMMA, {"inference": "exact"}, ("logged", "linear", "exact", "of='state'")),
        (GAMMA, {"behavior": "none"}, ("none", "linear", "exact", "of='both'")),
        (GAMMA, {"preset": "paper"}, ("none", "linear", "exact", "of='both'")),
        (GAMMA, {"link": "softplus"}, ("logged", "linear(link=softplus)", "laplace", "'state'")),
        (GAMMA, {"lam": "search"}, ("logged", "linear", "exact", "of='state'")),
        (GAMMA, {"surrogate": "cvar(0.5)"}, ("logged", "linear(link=exp)", "svi", "'state'")),
    ],
)
def test_vectors_with_propensities(known_log, gamma, given, expected):
    settings = settings_for(known_log, gamma=gamma, **given)
    behavior, model, engine, features = expected
    assert settings.behavior == behavior
    assert str(settings.model) == model
    assert settings.inference.name == engine
    assert features in str(settings.features)


def test_without_propensities_the_logging_policy_is_cloned(plain_log):
    assert settings_for(plain_log, gamma=GAMMA).behavior == "cloned"
    own = settings_for(plain_log, gamma=GAMMA, features=bd.features.polynomial(2))
    # Features of a user's own describe the whole ratio.
    assert own.behavior == "none"
    assert settings_for(plain_log, gamma=GAMMA, behavior="cloned").behavior == "cloned"
    assert str(own.model) == "linear"
    few = chain_log(1, n_episodes=10, n_steps=1)
    assert settings_for(few, gamma=GAMMA).behavior == "none"


def test_labels_keep_theirs(plain):
    settings = settings_for(plain.log(3), gamma=0.9)
    assert settings.tabular
    assert settings.behavior == "none"
    with pytest.raises(SettingsError, match="behavior='logged': expected features other than"):
        settings_for(plain.log(3), gamma=0.9, behavior="logged")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "exact (the posterior has a closed form)"),
        ({"inference": "auto"}, "exact (the posterior has a closed form)"),
        ({"preset": "paper"}, "exact (the posterior has a closed form)"),
        ({"inference": "svi"}, "svi (the posterior has a closed form)"),
        ({"inner": "guide"}, "svi (the posterior has a closed form)"),
        ({"link": "softplus"}, "svi (the model linear(link=softplus) has no closed form)"),
        ({"penalty": "huber(0.1)"}, "svi (the penalty huber(0.1) has no closed form)"),
        ({"surrogate": "cvar(0.5)"}, "svi (the surrogate cvar(0.5) has no closed form)"),
    ],
)
def test_the_closed_form_is_the_default_engine_where_there_is_one(plain, given, expected):
    assert settings_for(plain.log(3), gamma=0.9, **given).engine_words == expected


@pytest.mark.parametrize("asked", [{}, {"inference": "auto"}, {"inference": None}])
def test_what_is_prepared_is_the_program_and_not_its_tangent(known_log, asked):
    found = bd.prepare(known_log, POLICIES, gamma=GAMMA, rng_key=jax.random.key(0), **asked)
    assert found.inputs.settings.inference.name == "svi"
    assert not found.problem.tangent
    assert found.problem.of(0)[2].factor.shape[0] > 1


def test_engines_are_told_apart():
    engines = [make() for make in bd.inference.ENGINES.values()]
    assert len(set(engines)) == len(engines)


def test_a_link_beside_a_model_is_refused(plain):
    with pytest.raises(SettingsError, match="link: expected no model beside it"):
        settings_for(plain.log(3), gamma=0.9, link="softplus", model="neural")
    with pytest.raises(SettingsError, match="no directions with one-hot features"):
        settings_for(plain.log(3), gamma=0.9, model=bd.models.linear(directions=3))


def test_the_default_engine_of_fit_is_the_closed_form(plain):
    given = {"gamma": 0.9, "rng_key": jax.random.key(1)}
    log, policies = plain.log(3), plain.policies(1, 2)
    default, auto, exact = (
        bd.fit(log, policies, **given, **engine)
        for engine in ({}, {"inference": "auto"}, {"inference": "exact"})
    )
    assert default.attrs["engine"] == "exact (the posterior has a closed form)"
    np.testing.assert_array_equal(default["posterior/value"], exact["posterior/value"])
    np.testing.assert_array_equal(auto["posterior/value"], exact["posterior/value"])


def test_a_log_without_propensities_says_so(plain_log):
    with pytest.raises(LogsError, match="propensity"):
        bd.fit(plain_log, POLICIES, gamma=GAMMA, rng_key=jax.random.key(0), behavior="logged")
    with pytest.raises(SettingsError, match="behavior: expected one of 'logged', 'cloned'"):
        bd.fit(plain_log, POLICIES, gamma=GAMMA, rng_key=jax.random.key(0), behavior="known")


def test_action_ratios_are_quotients_of_normal_densities_under_a_cap(known_log):
    policies = {**POLICIES, "narrow": gaussian(0.2, 0.0, 0.01)}
    settings = settings_for(known_log, gamma=GAMMA)
    inputs = read_inputs(known_log, policies, settings, jax.random.key(0))
    found = action_ratios(
        known_log, policies, inputs.names, inputs.pairs, inputs.rows, "logged", None
    )
    state = known_log.state_labels[known_log.state][:, 0]
    action = known_log.action_vector[:, 0]

    def density(gain, shift, sd):
        return np.exp(-0.5 * ((action - gain * state - shift) / sd) ** 2) / sd

    numbers = [(-0.4, 0.0, 0.8), (0.0, 0.3, 1.0), (0.1, -0.1, 0.7), (0.2, 0.0, 0.01)]
    for j, each in enumerate(numbers):
        whole = density(*each) / density(0.2, 0.0, 1.0)
        kept = np.minimum(whole, MOST)
        np.testing.assert_allclose(
            found.by_pair[j][inputs.pairs.of_row], kept, rtol=1e-4, atol=1e-6
        )
        assert found.capped[j] == pytest.approx(1 - kept.sum() / whole.sum(), abs=1e-4)
    assert found.capped[3] > 0.3
    assert found.report is None


@pytest.mark.slow
def test_propensities_that_are_off_by_a_half_are_told(known_log, plain_log):
    policies = {"calm": POLICIES["calm"]}
    given = {"gamma": GAMMA, "rng_key": jax.random.key(0), "draws": 50}
    right = bd.fit(known_log, policies, **given)
    frame = known_log.to_dataframe().with_columns(pl.col("propensity") * 0.5)
    wrong = bd.fit(bd.Logs.from_dataframe(frame), policies, **given)
    assert "right ones average 1" not in right.attrs["support_warnings"]
    assert "right ones average 1" in wrong.attrs["support_warnings"]
    assert "known from the log's propensities" in str(bd.diagnose(right))
    alone = bd.fit(plain_log, policies, behavior="none", **given)
    assert "the whole ratio is learned" in str(bd.diagnose(alone))


def test_a_mode_that_was_not_found_is_an_abstention():
    (told,) = no_mode(("a", "b"), np.array([True, False]))
    assert told.policy == "b"
    assert told.abstain


@pytest.mark.slow
def test_weight_above_the_cap_is_told(known_log):
    belief = bd.fit(
        known_log,
        {"calm": POLICIES["calm"], "narrow": gaussian(0.2, 0.0, 0.01)},
        gamma=GAMMA,
        rng_key=jax.random.key(0),
        draws=50,
    )
    assert belief["constant_data/capped_share"].values[0] < 0.05
    assert "narrow" in belief.attrs["support_warnings"]
    assert "more than 20 times as often" in belief.attrs["support_warnings"]


@pytest.mark.slow
def test_the_default_covers_a_linear_world_with_known_densities():
    """90 % intervals of three candidates over 30 logs, against values in closed form."""
    inside, means, sds = [], [], []
    for seed in range(30):
        logs = with_density(chain_log(seed, n_episodes=40, n_steps=15))
        key = jax.random.key(seed)
        known = bd.fit(logs, POLICIES, gamma=GAMMA, rng_key=key, draws=2)["constant_data"]
        off = np.abs(known["guide_mean"].values - TRUTH) / known["guide_sd"].values
        inside.append(off < 1.71)  # Student t, 24 degrees of freedom
        means.append(known["guide_mean"].values)
        sds.append(known["guide_sd"].values)
    # Candidates share a log's errors: three of them count as one.
    np.testing.assert_allclose(np.mean(inside), 0.9, atol=4.5 * np.sqrt(0.09 / 30))
    # The believed sd is that of the estimates over logs, which 30 logs tell to 13 %. Now and then
    # the jackknife is several times wider, so the usual log is what is held.
    ratio = np.median(sds, axis=0) / np.std(means, axis=0, ddof=1)
    np.testing.assert_allclose(ratio, 1.0, atol=4.5 * 0.13)


def test_a_clone_is_fitted_reported_and_kept(plain_log, known_log):
    cloned, logged = (
        bd.fit(log, POLICIES, gamma=GAMMA, rng_key=jax.random.key(0), draws=50)
        for log in (chain_log(2, n_episodes=60, n_steps=15), known_log)
    )
    report = json.loads(cloned.attrs["clone"])
    assert report["form"] in ("linear", "network")
    assert report["log_likelihood"] > report["constant_log_likelihood"]
    assert "clone" not in logged.attrs
    assert "clone of the logging policy" not in cloned.attrs["support_warnings"]
    assert "The logging policy was cloned" in str(bd.diagnose(cloned))
    off = np.abs(cloned["constant_data/guide_mean"].values - TRUTH)
    assert np.all(off < 4.5 * cloned["constant_data/guide_sd"].values)


def test_weights_are_told_by_their_own_error_and_not_by_rounding():
    known = SimpleNamespace(mean=np.array([1.0 + 1e-12, 1.2, 1.2]), error=np.array([0, 0.01, 0.1]))
    inputs = SimpleNamespace(action_ratios=known, names=("itself", "off", "noisy"))
    assert [warning.policy for warning in wrong_weights(inputs)] == ["off"]


def survivors(seed, n_episodes=300, n_steps=30):
    """One state, a reward of one a step, and an action that ends the episode more often."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(n_episodes):
        for step in range(n_steps):
            action = int(rng.integers(2))
            ended = bool(rng.random() < (0.1, 0.5)[action])
            rows.append((episode, step, 0, action, 1.0, 0, ended))
            if ended:
                break
    names = ["episode_id", "step", "state", "action", "reward", "next_state", "terminated"]
    return bd.Logs.from_dataframe(pl.DataFrame(rows, schema=names, orient="row"))


@pytest.mark.parametrize("reading", ["absorb", "restart"])
def test_equal_rewards_can_be_judged_where_a_termination_ends_them(reading):
    logs = survivors(3)
    safe = bd.Policies.from_dataframe(
        pl.DataFrame(
            {"policy": ["safe"] * 2, "state": [0, 0], "action": [0, 1], "prob": [1.0, 0.0]}
        )
    )
    belief = bd.fit(
        logs,
        safe,
        gamma=0.9,
        rng_key=jax.random.key(0),
        inference="exact",
        on_termination=reading,
    )
    kept = json.loads(belief.attrs["support_warnings"])
    told = [warning["reason"] for warning in kept if warning["abstain"]]
    if reading == "restart":
        assert any("every logged reward is 1" in reason for reason in told)
    else:
        assert not told
        value = belief["posterior"]["value"].sel(policy="safe").values
        truth = 0.1 / (1.0 - 0.9 * 0.9)
        assert abs(value.mean() - truth) <= 5.0 * value.std()


def test_a_small_bandit_gets_fewer_features_than_would_follow_its_noise():
    rng = np.random.default_rng(0)
    n = 500
    columns = {f"obs_{i}": rng.normal(size=n) for i in range(10)}
    action = rng.integers(5, size=n)
    frame = pl.DataFrame({**columns, "action": action, "reward": rng.normal(size=n)})
    logs = bd.Logs.from_dataframe(frame.with_columns(propensity=pl.lit(0.2)), actions=range(5))
    settings = settings_for(logs, gamma=0.0)
    even = SimpleNamespace(probs=lambda obs: np.full((len(obs), 5), 0.2))
    inputs = read_inputs(logs, {"even": even}, settings, jax.random.key(0))
    assert not many_features(inputs)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (3, "concatenate(fourier(100, times_median=0.5, of='state', recode=True), columns(of='s"),
        (12, "concatenate(fourier(100, times_median=0.5, of='state', recode=True), columns(of='s"),
        (20, "concatenate(fourier(20, times_median=0.5, of='state', recode=True), columns(of='sta"),
        (60, "concatenate(fourier(10, times_median=0.5, of='state', recode=True), columns(of='sta"),
    ],
)
def test_a_state_of_many_numbers_has_most_features_in_one_number_each(size, expected):
    n = 4000
    columns = {f"obs_{i}": np.random.default_rng(i).normal(size=n) for i in range(size)}
    rest = {"action": np.arange(n) % 2, "reward": np.zeros(n), "propensity": np.full(n, 0.5)}
    frame = pl.DataFrame({"episode_id": np.arange(n) // 50, "step": np.arange(n) % 50, **columns})
    logs = bd.Logs.from_dataframe(frame.with_columns(**{k: pl.Series(v) for k, v in rest.items()}))
    said = settings_for(logs, gamma=0.9).flat["features"]
    assert said.startswith(expected)
    assert ("waves=" in said) is (size > 12)


def test_a_small_log_of_many_codes_gets_no_more_features_than_it_can_bear():
    n = 400
    codes = {f"obs_{i}": np.random.default_rng(i).integers(8, size=n) for i in range(12)}
    rest = {"action": np.arange(n) % 2, "reward": np.zeros(n), "propensity": np.full(n, 0.5)}
    frame = pl.DataFrame({"episode_id": np.arange(n) // 20, "step": np.arange(n) % 20, **codes})
    logs = bd.Logs.from_dataframe(frame.with_columns(**{k: pl.Series(v) for k, v in rest.items()}))
    said = settings_for(logs, gamma=0.9).flat["features"]
    assert said == "fourier(10, times_median=0.5, of='state', recode=True)"


@pytest.mark.slow
def test_columns_of_noise_do_not_bias_the_belief():
    """The values are those of the chain, whatever stands beside its state."""
    off = []
    for seed in range(6):
        frame = with_density(chain_log(seed, n_episodes=60, n_steps=25)).to_dataframe()
        rng = np.random.default_rng(100 + seed)
        noise = {f"obs_{i}": rng.normal(size=len(frame)) for i in range(1, 20)}
        noise |= {f"next_obs_{i}": rng.normal(size=len(frame)) for i in range(1, 20)}
        logs = bd.Logs.from_dataframe(
            frame.with_columns(**{k: pl.Series(v) for k, v in noise.items()})
        )
        belief = bd.fit(logs, POLICIES, gamma=GAMMA, rng_key=jax.random.key(seed), draws=100)
        known = belief["constant_data"]
        off.append((known["guide_mean"].values - TRUTH) / known["guide_sd"].values)
    assert np.abs(off).max() < 4.0
    # Their mean has a standard error of 0.4 in each candidate.
    assert np.abs(np.mean(off, axis=0)).max() < 2.0
