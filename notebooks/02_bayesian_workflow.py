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
# # Question, check, show: the Bayesian workflow on real clicks
#
# Ten thousand impressions of a fashion store's front page, shown by a uniformly random policy, and
# five candidates. Two may go live. A belief is quickly made. Should it be believed?

# %%
import arviz as az
import jax

import bayesdice_ppl as bd

logs, policies, *_ = bd.datasets.open_bandit()
belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(1), draws=1000)
bd.summary(belief, round_to=5)

# %% [markdown]
# The draws are independent, so there is no R-hat to read, and the table says why.

# %%
bd.summary(belief).attrs["chains"]

# %%
bd.plots.forest(belief)

# %% [markdown]
# ## Question: what does the belief say of itself?
#
# A verdict for each candidate, with its reasons.

# %%
diagnosis = bd.diagnose(belief)
for verdict in diagnosis.verdicts:
    print(verdict)

# %%
bd.plots.support(belief)

# %% [markdown]
# ## Check: what did the data add to the prior?
#
# Groups for ArviZ are made on demand. The prior of a value is wide on purpose.

# %%
full = bd.add_prior(belief, logs, policies, rng_key=jax.random.key(2))
az.plot_prior_posterior(full, var_names="value", coords={"policy": ["bts", "uniform"]})

# %% [markdown]
# ## Check: would intervals like these cover?
#
# Logs like this one, played from its own table, have values that are known. How often do 90 %
# intervals hold them? (Twenty logs keep this short; take two hundred.)

# %%
part = bd.Logs.from_dataframe(logs.to_dataframe().head(2000))
calibration = bd.calibrate(
    part, policies, gamma=0.0, rng_key=jax.random.key(3), trials=20, draws=500, cluster="transition"
)
print(calibration)
bd.plots.coverage(calibration)

# %% [markdown]
# ## Show: the choice

# %%
choice = bd.select(belief, bd.scores.regret(k=2))
print(choice.answer)
bd.plots.top_k(belief, 2)
