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
# # Quality against cost: choosing a router among language models
#
# A router sends each request to one of three language models. It logged the kind of request, the
# model it chose, the probability of that choice, whether the answer was accepted, and what it
# cost. Four other routers are proposed. Which one should go live, if a request may cost two and a
# half cents on average?
#
# Two things are asked at once: how often a router's answers are accepted, and what they cost. One
# belief holds both.

# %%
import arviz as az
import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd

# %% [markdown]
# ## The log
#
# This log is simulated, so that the last cell can compare with the truth. Yours is a table with
# the same columns. Users come back, and some of them accept more answers than others.

# %%
KINDS, MODELS = ["chat", "code", "math"], ["small", "medium", "large"]
ACCEPTED = np.array([[0.80, 0.83, 0.86], [0.55, 0.72, 0.85], [0.30, 0.50, 0.80]])
CENTS = np.array([0.2, 1.0, 5.0])
ROUTED = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.3, 0.3, 0.4]])

rng = np.random.default_rng(7)
n = 4000
kind = rng.choice(3, n, p=[0.5, 0.3, 0.2])
model = (rng.random((n, 1)) > ROUTED[kind].cumsum(axis=1)).sum(axis=1)
user = rng.integers(0, 500, n)
taste = rng.normal(0.0, 0.05, 500)
log = pl.DataFrame(
    {
        "kind": np.array(KINDS)[kind],
        "model": np.array(MODELS)[model],
        "probability": ROUTED[kind, model],
        "accepted": (rng.random(n) < ACCEPTED[kind, model] + taste[user]).astype(int),
        "cents": CENTS[model] * rng.lognormal(0.0, 0.4, n),
        "user_id": user,
    }
)
log.head()

# %% [markdown]
# `reward=` names the columns of rewards. The first is the log's reward.

# %%
logs = bd.Logs.from_dataframe(
    log,
    columns={"state": "kind", "action": "model", "propensity": "probability"},
    reward=["accepted", "cents"],
)
logs

# %% [markdown]
# ## The routers
#
# A dict of kind -> model is a policy.

# %%
routers = {
    "always large": dict.fromkeys(KINDS, "large"),
    "always medium": dict.fromkeys(KINDS, "medium"),
    "by kind": {"chat": "small", "code": "medium", "math": "large"},
    "frugal": {"chat": "small", "code": "small", "math": "medium"},
}

# %% [markdown]
# ## One belief of both rewards
#
# A request is a decision of its own: gamma is 0.

# %%
belief = bd.fit(logs, routers, gamma=0.0, rng_key=jax.random.key(0))
az.summary(belief, var_names=["accepted", "cents"], kind="stats", round_to=3)

# %%
bd.plots.forest(belief, statistic="cents")

# %% [markdown]
# The draws are joint over routers *and* rewards. So whatever is computed from both has an honest
# width: a trade of one for the other, or the probability that a router gives up little *and* saves
# much.

# %%
accepted, cents = (belief[f"posterior/{name}"].squeeze("chain") for name in ("accepted", "cents"))
given_up = accepted.sel(policy="always large") - accepted.sel(policy="by kind")
saved = cents.sel(policy="always large") - cents.sel(policy="by kind")
both = float(((given_up < 0.1) & (saved > 3.7)).mean())
print(f"P('by kind' gives up less than 10 % of answers and saves over 3.7 cents) = {both:.2f}")

# %% [markdown]
# ## Three questions, one fit
#
# Which router is accepted most often? Which one among those that surely keep to the budget? And
# which one if an accepted answer is worth twenty cents?

# %%
score = bd.scores.regret(k=1)
bd.select(belief, score)

# %%
within = bd.select(belief, score, limits={"cents": (None, 2.5)}, confidence=0.95)
within

# %%
bd.select(belief, score, statistic={"accepted": 20.0, "cents": -1.0})

# %%
bd.plots.forest(belief, statistic={"accepted": 20.0, "cents": -1.0})

# %% [markdown]
# ## The truth
#
# It is known here, and only here.

# %%
share = np.array([0.5, 0.3, 0.2])
rows = []
for name, choice in routers.items():
    chosen = [MODELS.index(choice[each]) for each in KINDS]
    quality = float(share @ ACCEPTED[np.arange(3), chosen])
    cost = float(share @ CENTS[chosen] * np.exp(0.4**2 / 2))
    rows.append((name, quality, cost, cost <= 2.5))
truth = pl.DataFrame(rows, schema=["router", "accepted", "cents", "affordable"], orient="row")
best = truth.filter("affordable").sort("accepted", descending=True)["router"][0]
print(f"Chosen: {within.launch[0]}. Truly best within the budget: {best}.")
truth
