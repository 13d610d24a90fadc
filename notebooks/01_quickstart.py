# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart: which of five policies should go live?
#
# We have logs of one policy, five candidates that were never run, and two slots. This notebook
# shows every step: logs, belief, diagnostics, ranking. The world is simulated, so at the end we
# can compare with the truth.

# %%
import arviz as az
import jax
import numpy as np
import numpyro
from numpyro.infer import MCMC, NUTS

import bayesdice_ppl as bd

# %% [markdown]
# ## Logs and candidates
#
# A log is a table with one row per step. Yours comes from a file
# (`bd.read_logs("logs.parquet", columns={"action": "item_id"})`) or a dataframe
# (`bd.Logs.from_dataframe(df)`). This one has 50 episodes of a slippery frozen lake.

# %%
world = bd.simulation.make_world("frozenlake", alpha=0.5, candidates=(0.0, 0.25, 0.75, 0.9, 1.0))
logs = bd.simulate(world.env, world.behavior, 50, 100, rng_key=jax.random.key(1))
logs

# %%
logs.to_dataframe().head()

# %% [markdown]
# ## A belief
#
# `fit` runs the NumPyro program of `bayesdice_ppl.models` by stochastic variational inference
# (SVI), for all candidates at once. The result is a plain ArviZ DataTree.

# %%
belief = bd.fit(logs, world.candidates, gamma=0.99, rng_key=jax.random.key(2))
az.summary(belief, var_names=["value"], kind="stats", round_to=5)

# %%
bd.plots.forest(belief)

# %% [markdown]
# Errors on the same logs move together: if the logs were lucky, they were lucky for every
# candidate. So the ranking below is far more certain than the overlapping intervals suggest.

# %%
draws = belief["posterior/value"].values[0]
np.round(np.corrcoef(draws.T), 3)

# %% [markdown]
# ## What to believe, and what not

# %%
print(bd.diagnose(belief, logs, world.candidates))

# %% [markdown]
# ## A ranking for the score you care about
#
# Top-2 regret: how much worse is the better of the two that we launch than the best of all five?

# %%
choice = bd.select(belief, bd.scores.regret(k=2))
choice

# %% [markdown]
# Another score uses the same belief, without fitting again.

# %%
print(bd.select(belief, bd.scores.accuracy(k=3)).answer)


# %% [markdown]
# Or a score of your own: the probability that the first choice is worse than the logging policy.


# %%
def worse_than_logged(values, ranking):
    """1 where the first choice is worth less than what the logs earned."""
    return (values[:, ranking[0]] < belief.attrs["logged_value"]).astype(float)


print(bd.select(belief, bd.scores.custom(worse_than_logged, depth=1)).answer)

# %% [markdown]
# ## The truth, for once

# %%
{
    name: round(bd.true_value(world.env, policy, 0.99), 5)
    for name, policy in world.candidates.items()
}

# %% [markdown]
# ## The program itself
#
# The model is a plain NumPyro function of a candidate's ratio. Here we run NUTS on it for one
# candidate. It agrees with SVI.

# %%
plain = bd.Constraint(small_sample=False)
prepared = bd.prepare(logs, world.candidates, gamma=0.99, constraint=plain)
with jax.enable_x64(True):
    ratio, constraint, coordinates = prepared.problem.of(4)
    kernel = NUTS(bd.models.model, dense_mass=True)
    mcmc = MCMC(kernel, num_warmup=500, num_samples=500, progress_bar=False)
    mcmc.run(jax.random.key(3), ratio, constraint, inner="exact")
    value = np.asarray(mcmc.get_samples()["value"])
print(f"NUTS {value.mean():.5f} +- {value.std():.5f}")
fitted = bd.fit(logs, world.candidates, gamma=0.99, rng_key=jax.random.key(4), constraint=plain)
found = fitted["posterior/value"].sel(policy="alpha_1.00")
print(f"SVI  {float(found.mean()):.5f} +- {float(found.std()):.5f}")

# %%
with jax.enable_x64(True), numpyro.handlers.seed(rng_seed=0):
    trace = numpyro.handlers.trace(bd.models.model).get_trace(ratio, constraint)
{name: site["type"] for name, site in trace.items()}
