"""The calibration benchmark measures what `fit` computes, and its bars hold."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import fit_flat
from benchmarks.calibration import BAR, FORMS, SEED, TRIALS, calibration_settings, summarize
from benchmarks.coverage import LEVELS, central_mass, measure_coverage
from benchmarks.tables import write_table
from benchmarks.trials import run_trials
from tests.marks import slow

CELLS = {setting.name: setting for setting in calibration_settings()}
SCARCE_BANDIT = CELLS["bandit, behavior 0.2, n=50"]
SCARCE_LAKE = CELLS["frozen lake, 10 episodes"]


@pytest.mark.slow
def test_four_times_the_price_halves_the_width():
    forms = {"n": {}, "4 n": {"multiple": 4.0}, "paper, 4 n": {"preset": "paper", "multiple": 4.0}}
    found = run_trials(SCARCE_LAKE, jax.random.key(5), 2, forms)
    # Up to the prior, which is wide.
    np.testing.assert_allclose(found["4 n"].sd, 0.5 * found["n"].sd, rtol=0.01)
    np.testing.assert_allclose(found["4 n"].mean, found["n"].mean, rtol=0.02)
    assert np.all(found["paper, 4 n"].sd > found["4 n"].sd)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [SCARCE_BANDIT, slow(SCARCE_LAKE)], ids=lambda s: s.name)
def test_a_trial_is_what_fit_computes(setting):
    key = jax.random.key(5)
    found = run_trials(setting, key, 2, FORMS)
    with jax.enable_x64(True):
        logs = bd.simulate(
            setting.env,
            setting.behavior,
            setting.n_episodes,
            setting.max_steps,
            rng_key=jax.random.split(key, 2)[1],
        )
    assert logs.n_transitions == setting.n_episodes * setting.max_steps
    assert logs.n_episodes == setting.n_episodes
    for form, choices in FORMS.items():
        constants = fit_flat(
            logs,
            {"target": setting.target},
            gamma=setting.gamma,
            rng_key=jax.random.key(1),
            inference="exact",
            draws=2,
            **choices,
        )["constant_data"]
        for name, numbers in (
            ("guide_mean", found[form].mean),
            ("guide_sd", found[form].sd),
            ("degrees_of_freedom", found[form].df),
            ("moved_mass", found[form].moved),
        ):
            expected = constants[name].item()
            np.testing.assert_allclose(numbers[1], expected, rtol=1e-6, atol=1e-12)


def five_errors(n_trials):
    return 5.0 * np.sqrt(LEVELS * (1.0 - LEVELS) / n_trials)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [SCARCE_BANDIT, slow(SCARCE_LAKE)], ids=lambda s: s.name)
def test_a_few_trials_are_covered_as_they_should_be(setting):
    n_trials = 200
    forms = {name: FORMS[name] for name in ("default", 'preset="paper"')}
    believed = run_trials(setting, jax.random.key(SEED), n_trials, forms)
    truth = bd.true_value(setting.env, setting.target, setting.gamma)
    away = {}
    for form, one in believed.items():
        mass = central_mass(one.mean, one.sd, one.df, truth)
        away[form] = np.abs(measure_coverage(mass, seed=SEED).levels - LEVELS)
    assert np.all(away["default"] <= five_errors(n_trials))
    if setting is SCARCE_LAKE:
        # So few trials suffice to see that the paper's own form is far too wide here.
        assert np.any(away['preset="paper"'] > five_errors(n_trials))


def test_coverage_of_known_beliefs():
    # A normal belief one deviation off holds the truth in its central 68.27 %, a belief that is
    # certain only where it is right.
    mass = central_mass(
        np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), np.full(3, np.inf), 0.0
    )
    np.testing.assert_allclose(mass, [0.6826894921, 0.0, 1.0], rtol=1e-9)
    # The central 50 % of Student's t with 1 degree of freedom ends at 1.
    np.testing.assert_allclose(central_mass(np.ones(1), np.ones(1), np.ones(1), 0.0), 0.5)

    even = measure_coverage((np.arange(1000) + 0.5) / 1000, seed=0)
    np.testing.assert_allclose(even.levels, LEVELS)
    assert even.mace < 1e-9
    narrow = measure_coverage(np.full(1000, 0.75), seed=0)
    np.testing.assert_allclose(narrow.mace, np.mean([0.5, 0.7, 0.2, 0.1, 0.05]))
    np.testing.assert_allclose(narrow.mace_error, 0.0, atol=1e-12)


def test_tables_say_how_they_were_made(tmp_path):
    rows = [
        {"cell": "a", "mace": 0.01, "passes": True},
        {"cell": "b", "mace": None, "passes": False},
    ]
    write_table("trial", rows, command="python -m benchmarks trial", folder=tmp_path)
    text = (tmp_path / "trial.csv").read_text()
    assert text.startswith("# Made by `python -m benchmarks trial`.")
    again = pl.read_csv(tmp_path / "trial.csv", comment_prefix="#")
    assert again["cell"].to_list() == ["a", "b"]
    assert "| a | 0.01 | yes |" in (tmp_path / "trial.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("setting", CELLS.values(), ids=CELLS.keys())
def test_every_cell_is_within_its_bar(setting):
    believed = run_trials(setting, jax.random.key(SEED), TRIALS, {"default": {}})["default"]
    row = summarize(setting, "default", believed)
    assert row["passes"], row
    assert row["mace"] <= BAR + 2.0 * row["mace_se"]
