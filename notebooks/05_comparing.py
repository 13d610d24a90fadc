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
# # Comparing models, features and priors
#
# A greenhouse logs moisture and light each hour, whether it watered, and how much the plants grew.
# The gardener has three rules to replace the old one. The analyst has a choice of her own: which
# features describe an hour, how wide a prior, which form of the ratio? Each gives another belief.
# She must not pick the one that she likes.
#
# The greenhouse is simulated, so that the right answer is known. But nothing below uses it before
# the end.

# %%
import arviz as az
import jax
import numpy as np
import polars as pl

import bayesdice_ppl as bd

features = bd.features


def grown(moisture, light, water):
    """Mean growth: best where it is neither dry nor wet after watering."""
    return 1.0 - 0.5 * (moisture + 1.2 * water - 0.6) ** 2 + 0.3 * light


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


rules = {
    "when dry": lambda obs: sigmoid(-4.0 * obs[:, 0]),
    "when dark": lambda obs: sigmoid(-2.0 * obs[:, 1]),
    "always": lambda obs: np.full(len(obs), 0.95),
}
policies = {
    name: (lambda obs, rule=rule: np.stack([1 - rule(obs), rule(obs)], axis=1))
    for name, rule in rules.items()
}

rng = np.random.default_rng(0)
HOURS = 1500
weather = rng.normal(size=(HOURS, 2))
watered = (rng.random(HOURS) < sigmoid(-0.8 * weather[:, 0])).astype(int)
growth = grown(*weather.T, watered) + 0.3 * rng.normal(size=HOURS)
table = pl.DataFrame(
    {"obs_0": weather[:, 0], "obs_1": weather[:, 1], "action": watered, "reward": growth}
)
logs = bd.Logs.from_dataframe(table, actions=[0, 1])
logs

# %% [markdown]
# ## Features
#
# Three maps of an hour, each with weights of its own for watering and not: straight lines,
# parabolas, and forty random waves. The logging policy is not given, so that the whole ratio is
# learned.

# %%
by_action = features.one_hot(of="action")
maps = {
    "lines": features.product(features.polynomial(1, of="state"), by_action),
    "parabolas": features.product(features.polynomial(2, of="state"), by_action),
    "waves": features.product(features.fourier(40, of="state"), by_action),
}
settings = {name: {"features": each, "behavior": "none"} for name, each in maps.items()}
beliefs = {
    name: bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(1), **each)
    for name, each in settings.items()
}
az.plot_forest(
    beliefs,
    var_names=["value"],
    labels=["policy"],
    combined=True,
    figure_kwargs={"figsize": (8, 3.5), "figsize_units": "inches"},
).add_legend("model", title="", loc="lower right", bbox_to_anchor=(1.1, 0.1))

# %% [markdown]
# They do not agree. The first question is to each belief alone.

# %%
for name, belief in beliefs.items():
    print(name)
    for verdict in bd.diagnose(belief, logs, policies).verdicts:
        print("  ", verdict)
assert bd.diagnose(beliefs["lines"], logs, policies).verdict("when dry").word == "do not use"

# %% [markdown]
# The belief on lines says of itself that it must not be used: its ratio fails on functions that it
# was not fitted to. The second question is to all together. `compare` fits each without a fifth of
# the hours, and asks how well its ratio meets the constraints on that fifth, on functions that are
# the same for all. We take few, twenty waves, chosen before looking: each function more adds its
# own chance.

# %%
judge = features.product(features.fourier(20, of="state"), by_action)
given = {"gamma": 0.0, "features": judge}
compared = bd.compare(settings, logs, policies, rng_key=jax.random.key(2), **given)
print(compared)
az.plot_compare(compared.table)

# %%
assert "lines" not in compared.ties
assert {"parabolas", "waves"} <= set(compared.ties)

# %% [markdown]
# Lines lose. Parabolas and waves are a tie, and that is an answer: take either, or average them.

# %%
good = {name: beliefs[name] for name in ("parabolas", "waves")}
of_two = {name: settings[name] for name in good}
averaged = bd.stack(
    good,
    bd.compare(of_two, logs, policies, rng_key=jax.random.key(2), **given),
    rng_key=jax.random.key(3),
)
az.summary(averaged, var_names=["value"], kind="stats", round_to=3)

# %% [markdown]
# ## Priors
#
# How far may the ratio be from 1? Four widths, the same features.

# %%
widths = {
    f"sd {sd:g}": {**settings["parabolas"], "prior": bd.Prior(ratio_sd=sd)}
    for sd in (0.1, 1.0, 10.0, 100.0)
}
priors = bd.compare(widths, logs, policies, rng_key=jax.random.key(4), **given)
print(priors)
az.plot_compare(priors.table)

# %% [markdown]
# A narrow prior is far behind: it holds every rule close to what was logged. From ten up nothing
# changes. The winner, sd 1, shrinks a little. Shrinking helps a ratio to predict, and still moves a
# value: the intervals are calibrated for a wide prior. A comparison is about prediction alone, so
# do not narrow a prior for it.

# %%
assert "sd 0.1" not in priors.ties
moved = {
    name: bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(1), **each)
    for name, each in widths.items()
}
for name, belief in moved.items():
    value = belief["posterior/value"].squeeze("chain")
    print(name, dict(zip(policies, value.mean("draw").values.round(3), strict=True)))

# %% [markdown]
# And what does the prior say of a value before any data? Next to nothing, on purpose.

# %%
whole = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(1))
bd.plots.prior_posterior(bd.add_prior(whole, logs, policies, rng_key=jax.random.key(5)))

# %% [markdown]
# ## Models
#
# `whole` is what `fit` does if it is told nothing: it clones the logging policy, and learns only
# what is left of the ratio. Is that better than the whole ratio from scratch?

# %%
forms = {"told nothing": {}, "from scratch": settings["parabolas"]}
models = bd.compare(forms, logs, policies, rng_key=jax.random.key(6), **given)
print(models)

# %% [markdown]
# ## The truth
#
# Means over moisture and light, by quadrature.

# %%
nodes, weight = np.polynomial.hermite_e.hermegauss(60)
weight = weight / weight.sum()
grid = np.stack([each.ravel() for each in np.meshgrid(nodes, nodes, indexing="ij")], axis=1)
mass = np.outer(weight, weight).ravel()
truth = {}
for name, rule in rules.items():
    chance = rule(grid)
    mean = chance * grown(*grid.T, 1) + (1 - chance) * grown(*grid.T, 0)
    truth[name] = float(mass @ mean)
for name, belief in {**beliefs, "told nothing": whole, "average": averaged}.items():
    value = belief["posterior/value"].squeeze("chain")
    off = (value.mean("draw").values - np.array(list(truth.values()))) / value.std("draw").values
    print(f"{name:13s} off by", off.round(1), "of its sds")
    if name != "lines":
        assert np.all(np.abs(off) < 4)
bd.plots.forest(averaged, truth=truth)

# %% [markdown]
# ## What to do differently
#
# * Ask each belief first: a verdict is cheaper than a comparison.
# * Compare on few functions, and name them before you look. A tie is an answer.
# * Average what ties. Do not pick.
# * Do not narrow a prior because it predicts. Compare priors to find one that is *too* narrow.
