"""Procedures of known coverage: what is said of them, and what recalibration makes of them."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView, SupportWarning, make_belief
from bayesdice_ppl.errors import BayesDiceError

KEY = jax.random.key(5)
PULLS, TRIALS = 200, 200
QUANTILES = norm.ppf((np.arange(500) + 0.5) / 500)


@pytest.fixture(scope="module")
def pulls():
    rng = np.random.default_rng(0)
    ones = [0] * PULLS
    frame = pl.DataFrame({"state": ones, "action": ones, "reward": rng.normal(size=PULLS)})
    return bd.Logs.from_dataframe(frame, actions=[0]), {"a": bd.TabularPolicy(np.ones((1, 1)))}


def mean_of_rewards(width, shift=0.0):
    """A belief N(mean + shift se, (width se)^2) about the one value there is."""

    def procedure(logs, policies, *, rng_key):
        error = logs.reward.std(ddof=1) / np.sqrt(logs.n_transitions)
        values = logs.reward.mean() + error * (shift + width * QUANTILES)
        warned = [SupportWarning("a", "is a test.", width < 1.0)]
        return make_belief(values[:, None], list(policies), support_warnings=warned)

    return procedure


def within(share, expected, trials):
    return abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / trials)


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        ("parametric", 1.0),
        ("parametric", 0.5),
        ("parametric", 2.0),
        ("bootstrap", 0.5),
        ("sbc", 0.5),
    ],
)
def test_coverage_is_that_of_the_procedure(kind, width, pulls):
    logs, policies = pulls
    found = bd.calibrate(
        logs,
        policies,
        gamma=0.0,
        rng_key=KEY,
        kind=kind,
        trials=TRIALS,
        procedure=mean_of_rewards(width),
    )
    for level in (0.5, 0.9):
        exact = 2 * norm.cdf(width * norm.ppf(0.5 + level / 2)) - 1
        assert within(found.coverage(level)[0], exact, TRIALS)
    record = found.record("a")
    assert abs(record.stretch * width - 1.0) < 5 / np.sqrt(2 * TRIALS)
    assert abs(record.lean * width) < 5 / np.sqrt(TRIALS)
    assert record.abstained == float(width < 1.0)
    assert found.covers == (width >= 1.0)
    assert found.wide == (("a",) if width > 1.0 else ())
    assert ("wider than they need to be" in found.answer) == (width > 1.0)
    assert ("They do not cover for a" in found.answer) == (width < 1.0)
    assert f"({kind})" in found.answer


def test_what_is_said_of_one_that_leans(pulls):
    found = bd.calibrate(
        *pulls, gamma=0.0, rng_key=KEY, trials=TRIALS, procedure=mean_of_rewards(1.0, shift=-1.5)
    )
    # The truth is above mean - 1.5 se + 1.645 se in P(Z > 0.145).
    above = found.record("a").above
    assert within(above, norm.sf(norm.ppf(0.95) - 1.5), TRIALS)
    assert f"above the interval in {above:.0%}" in found.answer
    lean = found.record("a").lean
    assert abs(lean - 1.5) < 5 / np.sqrt(TRIALS)
    assert f"{lean:.1f} sds too low" in found.answer
    assert found.table.columns[:3] == ["policy", "50 %", "70 %"]


@pytest.mark.slow
def test_a_recalibrated_procedure_covers(pulls):
    logs, policies = pulls
    crooked = mean_of_rewards(0.5, shift=1.0)
    record = bd.calibrate(logs, policies, gamma=0.0, rng_key=KEY, trials=400, procedure=crooked)

    def mended(logs, policies, *, rng_key):
        return bd.recalibrate(crooked(logs, policies, rng_key=rng_key), record)

    other = jax.random.key(6)
    found = bd.calibrate(logs, policies, gamma=0.0, rng_key=other, trials=TRIALS, procedure=mended)
    assert within(found.coverage(0.9)[0], 0.9, TRIALS)
    assert found.covers
    (told,) = BeliefView(mended(logs, policies, rng_key=KEY)).notes
    assert "recalibrated by 400 simulated logs (parametric): a moved by -" in told


def test_a_right_belief_stays_as_it_was_and_says_so(pulls):
    logs, policies = pulls
    right = mean_of_rewards(1.0)
    record = bd.calibrate(
        logs, policies, gamma=0.0, rng_key=jax.random.key(8), trials=TRIALS, procedure=right
    )
    belief = right(logs, policies, rng_key=KEY)
    found = bd.recalibrate(belief, record)
    np.testing.assert_allclose(found["posterior/value"], belief["posterior/value"], rtol=1e-12)
    assert "a stays as it was" in BeliefView(found).notes[0]
    assert BeliefView(belief).notes == []


def test_values_keep_moving_together(pulls):
    rng = np.random.default_rng(3)
    names = ["a", "b"]
    values = rng.normal(size=(500, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    belief = make_belief(values, names)
    pit = rng.random((100, 2))
    zeros, ones = np.zeros((100, 2)), np.ones((100, 2))
    record = bd.Calibration(
        tuple(names), "sbc", 2.0 * rng.normal(size=(100, 2)) + 3.0, zeros, ones, pit, zeros > 0
    )
    found = bd.recalibrate(belief, record)["posterior/value"].values[0]
    np.testing.assert_array_equal(np.argsort(found, axis=0), np.argsort(values, axis=0))
    for j, name in enumerate(names):
        own = record.record(name)
        np.testing.assert_allclose(found[:, j].std(ddof=1), own.stretch * values[:, j].std(ddof=1))


def test_arviz_draws_the_probabilities_of_the_truth(pulls):
    import arviz_plots

    found = bd.calibrate(*pulls, gamma=0.0, rng_key=KEY, trials=50, procedure=mean_of_rewards(1.0))
    for coverage in (False, True):
        figure = arviz_plots.plot_ecdf_pit(found.tree, coverage=coverage, backend="none")
        assert figure.backend == "none"


def test_the_default_procedure_is_a_fit_and_environments_have_known_values():
    world = bd.simulation.make_world("bandit", alpha=0.5, candidates=(0.0, 1.0))
    found = bd.calibrate(
        world.env,
        world.candidates,
        gamma=0.0,
        rng_key=KEY,
        behavior=world.behavior,
        n_episodes=100,
        max_steps=1,
        trials=20,
        draws=100,
    )
    truth = [bd.true_value(world.env, policy, 0.0) for policy in world.candidates.values()]
    np.testing.assert_allclose(found.truth, np.tile(np.array(truth, float), (20, 1)))
    assert found.trials == 20
    # Five standard errors below 90 % in twenty logs.
    assert found.coverage(0.9).min() > 0.56
    assert "like those of the environment" in found.answer


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"kind": "guess"}, "kind: expected one of 'parametric'", id="kind"),
        pytest.param({"trials": 3}, "trials", id="trials"),
        pytest.param({"procedure": mean_of_rewards(1.0), "draws": 10}, "no settings", id="both"),
    ],
)
def test_wrong_questions_are_refused(given, message, pulls):
    with pytest.raises(BayesDiceError, match=message):
        bd.calibrate(*pulls, gamma=0.0, rng_key=KEY, **given)


def test_a_log_of_several_rewards_is_refused(pulls):
    logs, policies = pulls
    both = bd.Logs.from_dataframe(
        logs.to_dataframe().with_columns(cost=1.0), reward=["reward", "cost"], actions=[0]
    )
    with pytest.raises(BayesDiceError, match=r"for a calibration, found reward, cost"):
        bd.calibrate(both, policies, gamma=0.0, rng_key=KEY)


def test_candidates_by_logged_row_are_refused(pulls):
    logs, _ = pulls
    rows = bd.policies.RowPolicy(np.ones((PULLS, 1)), [0])
    with pytest.raises(BayesDiceError, match=r"policy 'a': .* found one by logged row"):
        bd.calibrate(logs, {"a": rows}, gamma=0.0, rng_key=KEY)


def test_the_value_moves_under_its_own_name_too():
    values = np.random.default_rng(3).normal(size=(500, 1))
    others = {"quality": values, "cost": values + 1.0}
    belief = make_belief(values, ["a"], statistics=others, rewards=["quality", "cost"])
    zeros = np.zeros((100, 1))
    record = bd.Calibration(("a",), "sbc", zeros + 2.0, zeros, zeros + 1.0, zeros, zeros > 0)
    found = bd.recalibrate(belief, record)["posterior"]
    assert np.abs(found["value"] - belief["posterior/value"]).max() > 1.0
    np.testing.assert_array_equal(found["quality"], found["value"])
    np.testing.assert_array_equal(found["cost"], belief["posterior/cost"])


def test_an_environment_needs_a_policy_that_plays(pulls):
    world = bd.simulation.make_world("bandit", alpha=0.5, candidates=(0.0, 1.0))
    with pytest.raises(BayesDiceError, match="behavior="):
        bd.calibrate(world.env, world.candidates, gamma=0.0, rng_key=KEY)


def test_logs_that_cannot_be_fitted_are_counted_and_told(pulls):
    logs, policies = pulls
    right, calls = mean_of_rewards(1.0), []

    def fussy(logs, policies, *, rng_key):
        calls.append(1)
        if len(calls) % 4 == 0:
            raise bd.errors.LogsError("a log of a Thursday.")
        return right(logs, policies, rng_key=rng_key)

    found = bd.calibrate(logs, policies, gamma=0.0, rng_key=KEY, trials=40, procedure=fussy)
    assert (found.trials, len(found.refused)) == (30, 10)
    assert "10 more logs could not be fitted; the first: a log of a Thursday." in found.answer

    def broken(logs, policies, *, rng_key):
        raise bd.errors.LogsError("a log of a Thursday.")

    with pytest.raises(BayesDiceError, match="found 11 that cannot be"):
        bd.calibrate(logs, policies, gamma=0.0, rng_key=KEY, trials=20, procedure=broken)


def test_a_belief_needs_the_record_of_its_own_candidates(pulls):
    record = bd.calibrate(*pulls, gamma=0.0, rng_key=KEY, trials=20, procedure=mean_of_rewards(1.0))
    with pytest.raises(BayesDiceError, match="at least 50 logs"):
        bd.recalibrate(make_belief(np.random.default_rng(0).normal(size=(9, 1)), ["a"]), record)
    with pytest.raises(BayesDiceError, match="a calibration of b"):
        bd.recalibrate(make_belief(np.random.default_rng(0).normal(size=(9, 1)), ["b"]), record)


def test_candidates_that_each_miss_a_little_are_seen_together():
    rng = np.random.default_rng(0)
    # Fifty candidates that miss by themselves: 80 % of each one's intervals hold the truth.
    inside = rng.random((60, 50)) < 0.8
    pit = np.where(inside, 0.5, 0.999)
    zeros = np.zeros(pit.shape)
    names = tuple(f"p{j}" for j in range(50))
    found = bd.Calibration(names, "parametric", zeros, zeros, zeros + 1.0, pit, zeros > 0)
    assert found.short
    assert not found.covers
    if not found.missed:
        assert "Together they do not cover: 80%" in found.answer
    # Candidates that always miss together are no more than one.
    alike = np.repeat(np.where(rng.random((60, 1)) < 0.83, 0.5, 0.999), 50, axis=1)
    one = bd.Calibration(names, "parametric", zeros, zeros, zeros + 1.0, alike, zeros > 0)
    assert not one.short
    right = np.where(rng.random((60, 50)) < 0.9, 0.5, 0.999)
    assert bd.Calibration(names, "sbc", zeros, zeros, zeros + 1.0, right, zeros > 0).covers
