"""Discounts of nearly one: rounding must not lose the normalization in a sum of other rows."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd


def log_of(seed, *, n_states=4, n_actions=5, rows=1400):
    """One-step episodes of a policy that takes some actions a few times only."""
    rng = np.random.default_rng(seed)
    acts = rng.dirichlet(np.full(n_actions, 0.3), n_states)
    moves = rng.dirichlet(np.full(n_states, 0.2), (n_states, n_actions))
    state = rng.integers(0, n_states, rows)
    action = np.array([rng.choice(n_actions, p=acts[s]) for s in state])
    following = [rng.choice(n_states, p=moves[s, a]) for s, a in zip(state, action, strict=True)]
    frame = {"state": state, "action": action, "next_state": following, "reward": state + action}
    noise = rng.normal(size=rows)
    return bd.Logs.from_dataframe(
        pl.DataFrame(frame).with_columns(pl.col("reward") + noise), actions=list(range(n_actions))
    )


@pytest.mark.parametrize("gamma", [0.99, 0.999, 0.9995, 0.9999, 0.99999])
@pytest.mark.parametrize("seed", [0, 3, 5])
def test_values_and_widths_are_those_of_the_logs_own_model(plain, gamma, seed):
    logs = log_of(seed)
    policies = plain.policies(seed, 3, n_states=4, n_actions=5)
    belief = bd.fit(
        logs,
        policies,
        gamma=gamma,
        rng_key=jax.random.key(0),
        inference="exact",
        cluster="transition",
        prior=bd.Prior(1e3, 1e3, rare_share=0.0, unseen="moved"),
        constraint=bd.Constraint(small_sample=False, value_law="student"),
    )
    numbers = belief["constant_data"]
    for j, policy in enumerate(policies.values()):
        oracle = plain.problem(logs, policy, gamma=gamma)
        rows, starts = oracle.influence()
        sd = np.sqrt(np.var(rows) / oracle.n + np.var(starts) / oracle.m)
        assert float(numbers["guide_sd"][j]) == pytest.approx(sd, rel=0.01)
        assert float(numbers["guide_mean"][j]) == pytest.approx(oracle.solve()[1], abs=0.01 * sd)
