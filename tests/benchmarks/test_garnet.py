"""The Garnet table measures what `fit` computes, against truths found in another way."""

import jax
import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student_t

import bayesdice_ppl as bd
from benchmarks import garnet
from benchmarks.garnet import KINDS, SEED, setting_of, summarize
from benchmarks.trials import Believed, run_worlds

# Minutes in all: run by make test-slow.
pytestmark = pytest.mark.slow

# Half of the rows differ from another one in their numbers alone, and a fit takes its time.
OFTEN = ("discounted", "absorbing terminations", "restarting terminations, undiscounted")
MARKED = [
    pytest.param(kind, id=kind.name, marks=() if kind.name in OFTEN else pytest.mark.slow)
    for kind in KINDS
]
FIELDS = {"mean": "guide_mean", "sd": "guide_sd", "df": "degrees_of_freedom", "moved": "moved_mass"}


def fitted(setting, key):
    """What `fit` says of the log that a key gives, and the log."""
    with jax.enable_x64(True):
        logs = bd.simulate(
            setting.env, setting.behavior, setting.n_episodes, setting.max_steps, rng_key=key
        )
    belief = bd.fit(
        logs,
        {"target": setting.target},
        gamma=setting.gamma,
        on_termination=setting.on_termination,
        rng_key=jax.random.key(1),
        inference="exact",
        draws=2,
    )
    return belief["constant_data"], logs


@pytest.mark.parametrize("kind", MARKED)
def test_a_world_is_what_fit_computes(kind):
    settings = [setting_of(kind, seed)[0] for seed in (4, 5, 6)]
    key = jax.random.key(5)
    found = run_worlds(settings, key, {"default": {}})["default"]
    constants, logs = fitted(settings[1], jax.random.split(key, 3)[1])
    assert found.n_transitions[1] == logs.n_transitions
    assert logs.terminated.any() == (kind.termination > 0.0)
    for name, constant in FIELDS.items():
        numbers = getattr(found, name)
        np.testing.assert_allclose(numbers[1], constants[constant].item(), rtol=1e-6, atol=1e-12)
        assert name == "moved" or len(set(numbers)) == 3, "each world is another"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_truth_is_that_of_the_reading(kind):
    setting, truth = setting_of(kind, 7)
    outcomes, policy = setting.env.outcomes, setting.target.probabilities
    n_states = len(policy)
    start = np.full(n_states, 1.0 / n_states)
    moves, reward = np.zeros((n_states, n_states)), np.zeros(n_states)
    for s, a, k in np.ndindex(outcomes.probability.shape):
        chance = policy[s, a] * outcomes.probability[s, a, k]
        reward[s] += chance * outcomes.reward[s, a, k]
        if not outcomes.terminated[s, a, k]:
            moves[s, outcomes.next_state[s, a, k]] += chance
        elif kind.on_termination == "restart":
            moves[s] += chance * start
    # Visits after so many steps, one power of the matrix at a time.
    visits, share, weight = np.zeros(n_states), start, 1.0
    for step in range(20_000):
        if kind.gamma == 1.0:
            visits = visits * step / (step + 1) + share / (step + 1)
        else:
            visits += (1.0 - kind.gamma) * weight * share
            weight *= kind.gamma
        share = share @ moves
    # An average over so many steps has its start in it, with a weight of 1 / 20,000 a step.
    assert truth == pytest.approx(visits @ reward, abs=1e-12 if kind.gamma < 1.0 else 1e-3)
    assert 0.0 < truth < 1.0


def test_rows_against_intervals_by_scipy():
    rng = np.random.default_rng(3)
    n, kind = 40, KINDS[0]
    mean, sd, df = rng.normal(size=n), rng.uniform(0.5, 2.0, size=n), rng.uniform(3, 30, size=n)
    truth = rng.normal(size=n)
    nothing = np.zeros(n)
    row = summarize(kind, Believed(mean, sd, df, nothing, nothing, nothing), truth)
    for level in (50, 70, 80, 90, 95):
        low, high = student_t.interval(level / 100, df, loc=mean, scale=sd)
        assert row[f"cov_{level}"] == pytest.approx(np.mean((low <= truth) & (truth <= high)))
    assert row["bias"] == pytest.approx(np.mean((mean - truth) / sd))
    assert row["bias_se"] == pytest.approx(np.std((mean - truth) / sd, ddof=1) / np.sqrt(n))


@pytest.mark.parametrize(
    ("shift", "stretch", "passes"), [(0.0, 1.0, True), (0.5, 1.0, False), (0.0, 2.0, False)]
)
def test_biased_and_narrow_beliefs_do_not_pass(shift, stretch, passes):
    n = 200
    # Errors at the quantiles of the belief itself are as calibrated as can be.
    off = student_t.ppf((np.arange(n) + 0.5) / n, np.inf)
    nothing = np.zeros(n)
    mean, df = stretch * off + shift, np.full(n, np.inf)
    row = summarize(KINDS[0], Believed(mean, np.ones(n), df, nothing, nothing, nothing), nothing)
    assert row["passes"] is passes


def test_a_tiny_table(tmp_path):
    kind = KINDS[2]._replace(n_episodes=30)
    garnet.main(2, tmp_path, [kind])
    table = pl.read_csv(tmp_path / "garnet.csv", comment_prefix="#")
    assert table["kind"].to_list() == [kind.name]
    row = table.row(0, named=True)
    keys = jax.random.split(jax.random.key(SEED), 2)
    off = []
    for seed in range(2):
        setting, truth = setting_of(kind, seed)
        constants, _ = fitted(setting, keys[seed])
        off.append((constants["guide_mean"].item() - truth) / constants["guide_sd"].item())
    assert row["bias"] == pytest.approx(np.mean(off), rel=1e-4)
    assert row["worlds"] == 2


def test_worlds_of_different_logs_are_refused():
    settings = [setting_of(kind, 0)[0] for kind in KINDS[:2]]
    with pytest.raises(ValueError, match="one size of log"):
        run_worlds(settings, jax.random.key(0), {"default": {}})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_within_its_bars(kind):
    row = garnet.run_kind(kind, garnet.TRIALS)
    assert row["passes"], row
