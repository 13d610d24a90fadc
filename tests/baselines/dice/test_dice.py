"""DualDICE and the regularized Lagrangian against exact ratios, loops and SciPy's minimizers."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

from bayesdice_ppl import features
from bayesdice_ppl.baselines.dice import saddle
from bayesdice_ppl.baselines.dice.dual_dice import dual_dice, solve_ratio
from bayesdice_ppl.baselines.dice.lagrangian_dice import PRESETS, lagrangian_dice
from bayesdice_ppl.baselines.dice.saddle import Switches, make_blocks, solve_saddle
from bayesdice_ppl.baselines.interface import Baseline, Query
from bayesdice_ppl.baselines.value.lstdq import lstdq
from bayesdice_ppl.baselines.weighting.minimax_weight import minimax_weight
from bayesdice_ppl.errors import LogsError, SettingsError
from tests.baselines.exhaustive import (
    POLICY,
    SETTINGS,
    TARGET,
    exact_value,
    exhaustive_logs,
    logged_share,
    occupancy,
)
from tests.linear_world import GAMMA, POLICIES, chain_log

RIDGE = 1e-9
"""In transitions: what it moves is below the tolerances here."""
DISCOUNTED = [setting for setting in SETTINGS if setting[0] < 1.0]
WITHOUT_NORMALIZATION = {name for name, given in PRESETS.items() if "normalization" not in given}


class Direct:
    """The Lagrangian's means by a loop over transitions, and its ratio's problem for SciPy.

    Standardized rewards have mean 0 and standard deviation 1; where the log ends at reward 0 for
    ever, 0 stays, and the root mean square is 1.
    """

    def __init__(self, phi, gamma, termination, *, standardized=False):
        logs = exhaustive_logs()
        self.center, self.scale = 0.0, 1.0
        if standardized:
            self.center = 0.0 if termination == "absorb" else logs.reward.mean()
            self.scale = np.sqrt(np.mean((logs.reward - self.center) ** 2))
        logs = replace(logs, reward=(logs.reward - self.center) / self.scale)
        n, d = logs.n_transitions, phi.shape[-1]
        at_policy = np.einsum("sa,sad->sd", TARGET, phi)
        self.phi, self.gamma = phi, gamma
        self.start = np.mean([at_policy[s] for s in logs.initial_state], axis=0)
        self.gram, self.move = np.zeros((d, d)), np.zeros((d, d))
        self.reward, self.mass = np.zeros(d), np.zeros(d)
        for s, a, r, following, ended in zip(
            logs.state, logs.action, logs.reward, logs.next_state, logs.terminated, strict=True
        ):
            here, mass = phi[s, a], 1.0
            after = at_policy[following]
            if ended and gamma > 0.0:
                after = self.start if termination == "restart" else 0.0 * here
                mass += 0.0 if termination == "restart" else gamma / (1.0 - gamma)
            self.gram += np.outer(here, here) / n
            self.move += np.outer(here, gamma * after - here) / n
            self.reward += here * r / n
            self.mass += here * mass / n

    def value(self, standardized):
        """From standardized rewards to those of the log."""
        return self.center + self.scale * standardized

    def flow(self, w):
        """Coefficients of Q in the Lagrangian."""
        return self.move.T @ w + (1.0 - self.gamma) * self.start

    def ratio(self, *, primal=1.0, dual=0.0, positive=False, slack=None, zero_reward=False):
        """Weights of the ratio at the saddle point; primal > 0; slack None: no normalization."""
        reward = 0.0 * self.reward if zero_reward else self.reward
        inverse = np.linalg.inv(self.gram)

        def loss(w):
            flow = self.flow(w)
            value = flow @ inverse @ flow / (2 * primal) + dual * w @ self.gram @ w / 2 - reward @ w
            return value + (0.0 if not slack else (self.mass @ w - 1.0) ** 2 / (2 * slack))

        def slope(w):
            value = self.move @ inverse @ self.flow(w) / primal + dual * self.gram @ w - reward
            return value + (0.0 if not slack else self.mass * (self.mass @ w - 1.0) / slack)

        constraints = []
        if positive:
            values = self.phi.reshape(-1, self.phi.shape[-1])
            constraints.append(
                {"type": "ineq", "fun": lambda w: values @ w, "jac": lambda w: values}
            )
        if slack == 0.0:
            constraints.append(
                {"type": "eq", "fun": lambda w: self.mass @ w - 1.0, "jac": lambda w: self.mass}
            )
        found = minimize(
            loss,
            np.ones(len(self.reward)),
            jac=slope,
            method="SLSQP",
            constraints=constraints,
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        assert found.success
        return found.x

    def q(self, w, primal):
        return -np.linalg.solve(self.gram, self.flow(w)) / primal


def table(phi):
    return features.table(phi, states=range(3), actions=range(2))


def phi_of(seed, d=3):
    """Few features, of which one is positive, so that a ratio of at least 0 exists."""
    phi = np.random.default_rng(seed).normal(size=(3, 2, d))
    phi[:, :, 0] = 1.0
    return phi


def value(method, gamma, termination):
    return method.estimate(exhaustive_logs(), POLICY, gamma=gamma, on_termination=termination).value


def test_they_are_baselines():
    found = [dual_dice(), lagrangian_dice()]
    assert all(isinstance(one, Baseline) for one in found)
    assert [one.name for one in found] == ["dual_dice", "lagrangian_dice"]
    assert all(one.gives == "estimate" and not one.needs.rng_key for one in found)
    assert lagrangian_dice("gen_dice").name == "lagrangian_gen_dice"


@pytest.mark.parametrize(("gamma", "termination"), DISCOUNTED)
def test_dual_dice_has_the_exact_ratio(gamma, termination):
    rows = Query(exhaustive_logs(), POLICY, gamma, on_termination=termination).rows()
    found = solve_ratio(make_blocks(rows, 0.0)).reshape(3, 2)
    assert np.allclose(found, occupancy(gamma, termination) / logged_share(), rtol=1e-9)
    exact = exact_value(gamma, termination)
    assert value(dual_dice(ridge=0.0), gamma, termination) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
def test_every_preset_is_exact_on_labels(preset, gamma, termination):
    method = lagrangian_dice(preset, ridge=RIDGE)
    if gamma == 1.0 and preset in WITHOUT_NORMALIZATION:
        with pytest.raises(SettingsError, match="normalization"):
            value(method, gamma, termination)
        return
    exact = exact_value(gamma, termination)
    assert value(method, gamma, termination) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(("gamma", "termination"), DISCOUNTED)
@pytest.mark.parametrize("seed", range(3))
def test_presets_on_features_are_the_methods_themselves(seed, gamma, termination):
    phi = phi_of(seed)
    direct = Direct(phi, gamma, termination)
    chosen = {"ridge": RIDGE, "features": table(phi)}
    # Without regularizers, and with the ratio's alone, the constraints settle everything.
    settled = -np.linalg.solve(direct.move.T, (1.0 - gamma) * direct.start) @ direct.reward
    for method in (
        lagrangian_dice("dual_dice", **chosen),
        lagrangian_dice("minimax_weight", **chosen),
        lagrangian_dice("minimax_q", **chosen),
        dual_dice(**chosen),
        minimax_weight(**chosen),
        lstdq(**chosen),
    ):
        assert value(method, gamma, termination) == pytest.approx(settled, rel=1e-6)
    gradient = direct.ratio(slack=1.0, zero_reward=True) @ direct.reward
    found = value(lagrangian_dice("gradient_dice", **chosen), gamma, termination)
    assert found == pytest.approx(gradient, rel=1e-5)
    general = direct.ratio(slack=1.0, zero_reward=True, positive=True) @ direct.reward
    found = value(lagrangian_dice("gen_dice", **chosen), gamma, termination)
    assert found == pytest.approx(general, rel=1e-5)


@pytest.mark.parametrize(("gamma", "termination"), SETTINGS)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("dual", [0.0, 0.05])
def test_switches_against_a_general_minimizer(gamma, termination, positive, dual):
    phi = phi_of(4)
    direct = Direct(phi, gamma, termination, standardized=True)
    # So strong a regularizer of Q that the ratio follows the reward, down to the bound.
    strength = 20.0
    w = direct.ratio(primal=strength, dual=dual, positive=positive, slack=0.0)
    if positive:
        # The bound is in force, or the test would show nothing.
        assert (phi @ w).min() < 1e-6
    found = {
        estimator: value(
            lagrangian_dice(
                estimator=estimator,
                primal_regularizer=strength,
                dual_regularizer=dual,
                zeta_positive=positive,
                normalization=True,
                ridge=RIDGE,
                features=table(phi),
            ),
            gamma,
            termination,
        )
        for estimator in ("primal", "dual", "lagrangian")
    }
    q = direct.q(w, strength)
    # lambda from stationarity in the ratio, where no bound holds it.
    slope = direct.reward + direct.move @ q - dual * direct.gram @ w
    if not positive:
        multiplier = slope @ direct.mass / (direct.mass @ direct.mass)
        primal = (1.0 - gamma) * direct.start @ q + multiplier
        assert found["primal"] == pytest.approx(direct.value(primal), rel=1e-4)
    assert found["dual"] == pytest.approx(direct.value(w @ direct.reward), rel=1e-4)
    # At E[zeta] = 1 the multiplier drops out.
    lagrangian = (1.0 - gamma) * direct.start @ q + w @ (direct.reward + direct.move @ q)
    assert found["lagrangian"] == pytest.approx(direct.value(lagrangian), rel=1e-4)


@pytest.mark.parametrize(("gamma", "termination"), DISCOUNTED)
def test_which_estimates_a_regularizer_biases(gamma, termination):
    exact = exact_value(gamma, termination)

    def estimates(**switches):
        return [
            value(lagrangian_dice(estimator=estimator, ridge=RIDGE, **switches), gamma, termination)
            for estimator in ("primal", "dual", "lagrangian")
        ]

    def exactly(found):
        distance = [abs(one - exact) for one in found]
        # Nothing in between, so that no tolerance decides.
        assert all(one < 1e-5 or one > 1e-3 for one in distance)
        return [one < 1e-5 for one in distance]

    assert exactly(estimates()) == [True, True, True]
    assert exactly(estimates(normalization=True)) == [True, True, True]
    assert exactly(estimates(dual_regularizer=1.0)) == [False, True, True]
    assert exactly(estimates(primal_regularizer=1.0)) == [True, False, True]
    both = estimates(primal_regularizer=1.0, dual_regularizer=1.0)
    assert exactly(both) == [False, False, False]
    no_reward = lagrangian_dice(primal_regularizer=1.0, zero_reward=True, ridge=RIDGE)
    assert value(no_reward, gamma, termination) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("positive", [False, True])
def test_the_sparse_systems_are_the_dense_ones(plain, monkeypatch, positive):
    logs, policy = plain.log(5), plain.policies(5, 1)["p0"]
    rows = Query(logs, policy, 0.9).rows()
    blocks = make_blocks(rows, 1e-3)
    switches = Switches(0.5, 0.2, positive, True, 0.1, False)
    dense, ratio = solve_saddle(blocks, switches), solve_ratio(blocks)
    monkeypatch.setattr(saddle, "DENSE_SIZE", 1)
    sparse = solve_saddle(blocks, switches)
    assert np.allclose(sparse.zeta, dense.zeta, rtol=1e-6, atol=1e-7)
    assert np.allclose(sparse.q, dense.q, rtol=1e-6, atol=1e-7)
    assert sparse.multiplier == pytest.approx(dense.multiplier, rel=1e-6)
    assert np.allclose(solve_ratio(blocks), ratio, rtol=1e-6)


def test_no_ratio_of_at_least_zero_is_an_error():
    # One feature of both signs: only the ratio 0 is nowhere negative, and its mean is not 1.
    phi = np.array([[[1.0], [-1.0]], [[1.0], [1.0]], [[2.0], [1.0]]])
    method = lagrangian_dice(zeta_positive=True, normalization=True, features=table(phi))
    with pytest.raises(LogsError, match="at least 0"):
        value(method, 0.9, "restart")


def test_vectors_agree_with_lstdq():
    logs, key = chain_log(0, n_episodes=60, n_steps=20), jax.random.key(0)
    for policy in POLICIES.values():
        expected = lstdq().estimate(logs, policy, gamma=GAMMA, rng_key=key).value
        # The ridge sits elsewhere, and is next to nothing.
        found = dual_dice().estimate(logs, policy, gamma=GAMMA, rng_key=key).value
        assert found == pytest.approx(expected, abs=0.02)


def test_bad_settings_are_refused():
    with pytest.raises(SettingsError, match="preset"):
        lagrangian_dice("nice")
    with pytest.raises(SettingsError, match="estimator"):
        lagrangian_dice(estimator="both")
    with pytest.raises(SettingsError, match="zero_reward"):
        lagrangian_dice("gen_dice", estimator="primal")
    with pytest.raises(SettingsError, match="dual_regularizer"):
        lagrangian_dice(dual_regularizer=-1.0)
    with pytest.raises(SettingsError, match="a discount below 1, found 1"):
        dual_dice().estimate(exhaustive_logs(), POLICY, gamma=1.0)
