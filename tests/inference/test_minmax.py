"""Min-max training of mean and deviation networks: the exact belief on labels, and its parts."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import fit_flat
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.inference import MinMax, solve, training
from bayesdice_ppl.inference.minmax import task_of, train
from bayesdice_ppl.models import mean_deviation
from tests.linear_world import GAMMA, POLICIES, chain_log
from tests.marks import slow

KEY = jax.random.key(4)
QUICK = MinMax(steps=40, restarts=1, checks=4, held_out=0.0, batch=32)


@pytest.fixture(scope="module")
def labels(plain):
    return plain.log(3, n_episodes=200, rewards="continuous"), plain.policies(4, 2)


@pytest.fixture(scope="module")
def small(labels):
    """A problem of few pairs, to take single steps on."""
    logs, policies = labels
    found = bd.prepare(
        logs, policies, gamma=0.9, model=mean_deviation(8, 1, noise=4, link="exp"), inference=QUICK
    )
    return found.problem, found.inputs.settings.form


@pytest.mark.parametrize(
    ("link", "settings"),
    [
        ("exp", MinMax(steps=1500, restarts=1, held_out=0.0)),
        slow("identity", MinMax(steps=4000)),
        slow("softplus", MinMax(steps=4000)),
    ],
)
def test_on_labels_it_reaches_the_exact_belief(labels, link, settings):
    logs, policies = labels
    given = {"gamma": 0.9, "rng_key": KEY, "draws": 2000}
    exact = fit_flat(logs, policies, inference="exact", **given)["constant_data"]
    belief = bd.fit(logs, policies, model=mean_deviation(link=link), inference=settings, **given)
    known, sd = belief["constant_data"], exact["guide_sd"].values
    # A quarter of an sd and 15 % are what is promised of networks.
    assert np.all(np.abs(known["guide_mean"].values - exact["guide_mean"].values) < 0.25 * sd)
    np.testing.assert_allclose(known["guide_sd"].values, sd, rtol=0.15)
    assert np.all(known["constraint_probability"].values > 0.5)
    assert belief["posterior/noise"].shape[-1] == 17 + settings.restarts
    assert belief["posterior/value"].shape[0] == 1


@partial(jax.jit, static_argnames="svi")
def objective(svi, params, problem, given):
    """The loss of one candidate at some parameters."""
    ratio, constraint = problem
    zero = jnp.zeros(ratio.rows.shape[1], jnp.float32)
    networks = ratio.networks(KEY)
    return svi.loss.loss(
        KEY, params, svi.model, svi.guide, ratio, constraint, networks, zero, given
    )


def test_mini_batches_are_unbiased_at_fixed_multipliers_and_not_for_the_penalty_of_a_batch(small):
    problem, form = small
    with jax.enable_x64(True):
        losses, penalties = {}, {}
        n_pairs = problem.ratio.inputs.shape[1]
        noise = jnp.asarray(training.noises((1,), (QUICK.draws // 2, 5), 0, 1)[0])
        for batch in (None, 1):
            settings = QUICK._replace(batch=batch)
            task, plan, _, _ = task_of(problem.arrays, form, settings, (0,))
            one, constraint = jax.tree.map(lambda x: x[0], (task.ratio, task.constraint))
            state = jax.tree.map(lambda x: x[0, 0], training.start(task, KEY, plan))
            svi = training.program(plan)
            params = svi.get_params(state)
            parts = [None] if batch is None else [jnp.array([i]) for i in range(n_pairs)]
            # Every batch of one pair once: their mean is the expectation, not an estimate of it.
            losses[batch] = [
                float(objective(svi, params, (one, constraint), training.Given(part, noise)))
                for part in parts
            ]
            linked = jnp.ones(n_pairs)
            penalties[batch] = [
                float(
                    constraint.penalty.value(
                        linked @ one.rows + one.moments.offset
                        if part is None
                        else n_pairs * one.rows[part[0]] + one.moments.offset
                    )
                )
                for part in parts
            ]
    whole, mean = losses[None][0], np.mean(losses[1])
    assert np.std(losses[1]) > 1e-3 * abs(whole)
    np.testing.assert_allclose(mean, whole, rtol=1e-4)
    assert np.mean(penalties[1]) > 1.5 * penalties[None][0]


def test_batches_go_through_the_whole_log_and_on_from_any_step():
    first = training.batches((3,), 10, 5, 0, 6)
    assert sorted(first[2:4].ravel().tolist()) == list(range(10))
    np.testing.assert_array_equal(training.batches((3,), 10, 5, 3, 3), first[3:])


def test_a_training_goes_on_from_its_file_and_refuses_another(small, tmp_path):
    problem, form = small
    settings = QUICK._replace(checkpoint=str(tmp_path / "state.npz"), progress=False)
    with jax.enable_x64(True):
        whole = train(problem.arrays, KEY, form, settings._replace(checkpoint=None))
        # An interruption: the third look at the training fails.
        looked = []

        original = training.read

        def interrupted(*args):
            looked.append(1)
            if len(looked) == 3:
                raise KeyboardInterrupt
            return original(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "read", interrupted)
            with pytest.raises(KeyboardInterrupt):
                train(problem.arrays, KEY, form, settings)
        resumed = train(problem.arrays, KEY, form, settings)
        np.testing.assert_array_equal(resumed.elbo, whole.elbo)
        for one, other in zip(
            jax.tree.leaves(resumed.params), jax.tree.leaves(whole.params), strict=True
        ):
            np.testing.assert_array_equal(one, other)
        with pytest.raises(SettingsError, match="of another log, key or settings"):
            train(problem.arrays, jax.random.key(5), form, settings)
        (tmp_path / "state.npz").write_text("nothing of the kind")
        with pytest.raises(SettingsError, match="is not a checkpoint of this training"):
            train(problem.arrays, KEY, form, settings)


@pytest.mark.slow
def test_equal_candidates_get_equal_beliefs_and_restarts_are_mixed(labels):
    logs, policies = labels
    twice = {"one": policies["p0"], "same": policies["p0"]}
    found = bd.prepare(
        logs,
        twice,
        gamma=0.9,
        model=mean_deviation(8, 1, noise=4),
        inference=QUICK._replace(restarts=2),
    )
    engine, form = found.inputs.settings.inference, found.inputs.settings.form
    solution = solve(found.problem, KEY, form, engine, 31)
    np.testing.assert_array_equal(solution.sampled[0], solution.sampled[1])
    turn = solution.sampled[0, 0, :, 5:7]
    np.testing.assert_array_equal(turn[:2], np.eye(2))
    assert turn.sum() == 31
    # Networks that started apart are apart: their spread is in the belief's.
    of_each = [solution.sampled[0, 0, which::2, -1].mean() for which in (0, 1)]
    assert of_each[0] != of_each[1]


def test_softening_raises_small_eigenvalues_as_far_as_it_hardly_widens_the_value():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6)) * np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1e-4])
    covariance = root @ root.T
    slope = rng.normal(size=6)
    found = training.softened(covariance, slope, np.ones(6))
    assert np.linalg.eigvalsh(found - covariance)[0] > -1e-9
    assert np.linalg.eigvalsh(found)[0] > 10.0 * np.linalg.eigvalsh(covariance)[0]
    before, after = slope @ covariance @ slope, slope @ found @ slope
    assert before <= after <= (1.0 + training.WIDENING) * before + 1e-12


def test_scouts_see_one_part_of_the_log_and_are_judged_on_the_other(small):
    problem, _ = small
    seen, unseen, share = training.held_out_rows(problem.arrays, 0.25, (7,))
    # Of both parts together the rows are those of the whole log.
    whole = (1.0 - share) * seen + share * unseen
    np.testing.assert_allclose(whole, problem.ratio.rows, rtol=1e-4, atol=1e-6)
    assert 0.15 < share < 0.35


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "linear"}, "expected a model that is trained"),
        ({"inference": "svi"}, "expected an engine that trains the model"),
        ({"constraint": bd.Constraint(lam="search")}, "expected a fixed lam"),
        ({"constraint": bd.Constraint(inner="exact")}, "its multipliers are fitted"),
        ({"constraint": bd.Constraint(surrogate="cvar")}, "found the surrogate cvar"),
        ({"constraint": bd.Constraint("huber(0.1)")}, "found the penalty huber"),
        ({"inference": MinMax(steps=0)}, "minmax.steps"),
        ({"inference": MinMax(draws=3)}, "minmax.draws"),
        ({"inference": MinMax(ascent_rate=2.0)}, "minmax.ascent_rate"),
        ({"inference": MinMax(held_out=1.0)}, "minmax.held_out"),
        ({"inference": MinMax(devices=3)}, "minmax.devices"),
        ({"inference": MinMax(restarts=5000)}, "at least one for each of 5000 restarts"),
    ],
)
def test_what_cannot_go_together_is_refused(given, message):
    chosen = {"model": mean_deviation(), "inference": MinMax(), **given}
    with pytest.raises(SettingsError, match=message):
        FitSettings(0.9, **chosen)


@pytest.mark.parametrize("number", [{"width": 0}, {"depth": 0}, {"noise": 0}, {"seed": -1}])
def test_what_makes_no_networks_is_refused(number):
    with pytest.raises(SettingsError, match="mean_deviation"):
        mean_deviation(**number)


def test_more_devices_than_there_are_are_refused(small):
    problem, form = small
    with jax.enable_x64(True), pytest.raises(SettingsError, match="which JAX sees, found 64"):
        train(problem.arrays, KEY, form, QUICK._replace(batch=64, devices=64))


PARALLEL = """
import json, sys
import jax, numpy as np
import bayesdice_ppl as bd
from bayesdice_ppl.inference import MinMax
from bayesdice_ppl.inference.minmax import train
from bayesdice_ppl.models import mean_deviation
from tests.linear_world import GAMMA, POLICIES, chain_log

key = jax.random.key(1)
settings = MinMax(steps=30, restarts=2, checks=3, held_out=0.0, batch=64, progress=False)
logs = chain_log(5, n_episodes=20, n_steps=10)
found = bd.prepare(
    logs, POLICIES, gamma=GAMMA, rng_key=key, behavior="none",
    features=bd.features.fourier(10), model=mean_deviation(16, noise=4), inference=settings,
)
form = found.inputs.settings.form
with jax.enable_x64(True):
    values = [
        np.concatenate([np.ravel(x) for x in jax.tree.leaves(
            train(found.problem.arrays, key, form, settings._replace(devices=n)).params
        )])
        for n in (1, 8)
    ]
print(json.dumps([jax.device_count(), float(np.abs(values[1] - values[0]).max()),
                  float(np.abs(values[0]).max())]))
"""


@pytest.mark.slow
def test_eight_devices_give_what_one_gives():
    root = Path(__file__).parents[2]
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", PARALLEL],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    devices, off, size = json.loads(done.stdout.splitlines()[-1])
    assert devices == 8
    assert off < 1e-4 * max(size, 1.0)


@pytest.mark.slow
def test_on_vectors_it_goes_through_fit_select_and_a_file(tmp_path):
    logs = chain_log(5, n_episodes=60, n_steps=15)
    belief = bd.fit(
        logs,
        POLICIES,
        gamma=GAMMA,
        rng_key=KEY,
        model=mean_deviation(16, noise=8),
        inference=MinMax(steps=400, restarts=2, checks=10, batch=256),
        behavior="cloned",
        draws=200,
    )
    assert np.isfinite(belief["posterior/value"].values).all()
    assert "minmax" in belief.attrs["engine"]
    assert sorted(bd.select(belief, bd.scores.regret(1)).order) == sorted(POLICIES)
    bd.save_belief(belief, tmp_path / "belief.nc")
    again = bd.load_belief(tmp_path / "belief.nc")
    np.testing.assert_array_equal(again["posterior/value"], belief["posterior/value"])
