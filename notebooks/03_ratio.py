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
# # What the ratio posterior looks like, and where it is wrong
#
# A new controller is to cross the frozen lake. Rescue teams have to be placed *before* its first
# day: one on the field where it will be most often, one where it will be next to a hole. The logs
# are the old controller's. Nobody has seen the new one move.
#
# A belief is mostly asked for one number, the value. Inside it has more: the *ratio* zeta(s, a),
# how much more often the new controller is at a pair of field and step than the logs are. Times the
# share of the logs, that is where it will be. This notebook draws that map with its uncertainty,
# and compares it with the truth. In some places it is wrong. We look which.

# %%
import arviz as az
import jax
import matplotlib.pyplot as plt
import numpy as np

import bayesdice_ppl as bd

GAMMA = 0.99
world = bd.simulation.make_world("frozenlake", alpha=0.0, candidates=(1.0,))
lake = bd.envs.as_tabular(world.env)
policies = bd.Policies({"new": world.candidates["alpha_1.00"]})
logs = bd.simulate(world.env, world.behavior, 40, 100, rng_key=jax.random.key(1))
belief = bd.fit(logs, policies, gamma=GAMMA, rng_key=jax.random.key(2))
belief["posterior"]

# %% [markdown]
# `value` is the one number. `weights` are draws of the ratio at each logged pair, "field, step".
# The steps are 0 left, 1 down, 2 right, 3 up.

# %%
az.plot_forest(
    belief,
    var_names=["weights"],
    coords={"pair": [f"{state}, {step}" for state in (0, 9, 13, 14) for step in range(4)]},
    labels=["pair"],
    combined=True,
    figure_kwargs={"figsize": (8, 6), "figsize_units": "inches"},
)

# %% [markdown]
# The new controller never takes most of these steps. There the ratio is 0 without any doubt. At the
# start it is near 1: both controllers are there often. Toward the goal it is larger and wider. The
# new one gets there more often, and the logs hold few such steps.
#
# ## The map
#
# The true share of time on each field is the solution of a linear system of the lake's own table.

# %%
moves = bd.envs.transition_matrix(lake.outcomes)  # (states, steps, next states)


def true_time(policy):
    """Discounted share of time on each field: d = (1 - gamma) start + gamma P' d."""
    table = np.asarray(policy.probs(np.arange(16)))
    chain = np.einsum("sa,sat->st", table, moves)
    start = (1 - GAMMA) * lake.initial_distribution
    return np.linalg.solve(np.eye(16) - GAMMA * chain.T, start)


def draws_of_time(one):
    """Draws of the same, from a belief: ratio times share of the logs, summed over steps."""
    pairs = one["constant_data"]
    share = pairs["pair_count"] / pairs["pair_count"].sum()
    time = (one["posterior/weights"].squeeze("chain").sel(policy="new") * share).values
    fields = np.zeros((len(time), 16))
    for column, state in enumerate(pairs["pair_state"].values.astype(int)):
        fields[:, state] += time[:, column]
    return fields


truth, time = true_time(policies["new"]), draws_of_time(belief)
kind = np.array(list("SFFF" + "FHFH" + "FFFH" + "HFFG"))
shown = ~np.isin(kind, ["H", "G"])


def draw_map(axes, numbers, title, fmt=".3f", **options):
    """The lake, with a number on each field."""
    grid = np.where(shown, numbers, np.nan).reshape(4, 4)
    image = axes.imshow(grid, **options)
    for state in range(16):
        text = {"H": "hole", "G": "goal"}.get(kind[state]) or format(numbers[state], fmt)
        axes.text(state % 4, state // 4, text, ha="center", va="center", fontsize=9)
    axes.set(title=title, xticks=[], yticks=[])
    return image


figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
blue = {"cmap": "Blues", "vmin": 0, "vmax": 0.6}
draw_map(panels[0], time.mean(axis=0), "belief: share of time", **blue)
draw_map(panels[1], truth, "truth", **blue)
draw_map(panels[2], time.std(axis=0), "sd of the belief", cmap="Oranges", vmin=0, vmax=0.06)
plt.show()

# %%
most = int(time.mean(axis=0).argmax())
edge = [2, 6, 9, 10, 4, 8, 13, 14]  # fields beside a hole
riskiest = edge[int(time.mean(axis=0)[edge].argmax())]
sure = np.mean(time[:, edge].argmax(axis=1) == edge.index(riskiest))
print(f"Most often on field {most}; beside a hole most often on field {riskiest} (P = {sure:.2f}).")
assert most == truth.argmax()
assert riskiest == edge[int(truth[edge].argmax())]

# %% [markdown]
# The teams stand right. How sure are the numbers together? Errors of neighbors move together: a
# courier that is more often on one field is less often on another.

# %%
near = az.from_dict(
    {"posterior": {"time": time[None, ::8][..., [0, 4, 8, 14]]}},
    coords={"field": [0, 4, 8, 14]},
    dims={"time": ["field"]},
)
az.plot_pair(near, var_names=["time"], marginal=True)

# %% [markdown]
# ## Where is it wrong?
#
# One map proves nothing. A hundred logs: how often do 90 % intervals of the share of time hold the
# true one, field by field? And of the value?

# %%
true_value = float(bd.true_value(world.env, policies["new"], GAMMA))
held, value_held, visits = np.zeros(16), 0, np.zeros(16)
LOGS = 100
for trial in range(LOGS):
    fresh = bd.simulate(world.env, world.behavior, 40, 100, rng_key=jax.random.key(50 + trial))
    fitted = bd.fit(fresh, policies, gamma=GAMMA, rng_key=jax.random.key(trial), draws=1000)
    low, high = np.quantile(draws_of_time(fitted), [0.05, 0.95], axis=0)
    held += (low <= truth) & (truth <= high)
    low, high = np.quantile(fitted["posterior/value"], [0.05, 0.95])
    value_held += low <= true_value <= high
    visits += np.bincount(fresh.to_dataframe()["state"].cast(int), minlength=16) / LOGS

figure, axes = plt.subplots(figsize=(4.2, 3.8), layout="constrained")
draw_map(
    axes, 100 * held / LOGS, "held by 90 % intervals (%)", ".0f", cmap="PuOr", vmin=50, vmax=130
)
plt.show()
share = 100 * held[shown & (truth > 0)] / LOGS
print(f"Fields: held in {share.min():.0f} to {share.max():.0f} % of {LOGS} logs.")
print(f"Value: held in {value_held} of {LOGS} logs.")
for state in np.flatnonzero(shown & (truth > 0)):
    print(f"field {state:2d}: {visits[state]:6.0f} visits, held in {held[state]:.0f}")

# %% [markdown]
# The value is held as often as it says. The map is not, quite. Most fields are held too often: the
# prior and the noise of rewards, which the map does not have, leave a ratio wider than its errors.
# The two fields of the upper row, which the courier reaches by mishap, are held a little too
# seldom. There the errors are those of a few dozen visits, and far from normal.
#
# So read the map as a map. The value has corrections for few visits and for skewness. The ratio has
# none: only the value is what the belief promises.

# %%
assert 80 <= value_held <= 98
assert share.min() > 70

# %% [markdown]
# ## A map that is wrong everywhere
#
# There is a way to have a bad map without few visits: to take different fields for the same. Say an
# analyst knows only the row of the lake, and so gives features of the row.

# %%
rows = np.zeros((16, 4, 16))
for state, step in np.ndindex(16, 4):
    rows[state, step, 4 * (state // 4) + step] = 1.0
by_row = bd.features.table(rows, states=list(range(16)), actions=list(range(4)))
coarse = bd.fit(logs, policies, gamma=GAMMA, rng_key=jax.random.key(2), features=by_row)
for verdict in bd.diagnose(coarse, logs, policies).verdicts:
    print(verdict)
assert bd.diagnose(coarse, logs, policies).verdict("new").word == "do not use"
print(f"true value {true_value:.4f}")
for name, one in (("by field", belief), ("by row", coarse)):
    value = one["posterior/value"]
    print(f"{name}: {float(value.mean()):.4f} (sd {float(value.std()):.4f})")
assert (
    abs(float(coarse["posterior/value"].mean()) - true_value) > 2 * coarse["posterior/value"].std()
)

# %% [markdown]
# A narrow belief, and the value is far off. The verdict tells: on single fields, which the features
# do not know, the ratio fails. Here is its map. Within a row it has the same ratio everywhere.

# %%
state = logs.to_dataframe()["state"].cast(int).to_numpy()
first_ratio = coarse["constant_data/pilot_ratio"].sel(policy="new").values  # of each logged row
time_by_row = np.bincount(state, weights=first_ratio / len(state), minlength=16)

figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
draw_map(panels[0], truth, "truth", **blue)
draw_map(
    panels[1],
    time_by_row - truth,
    "by row: too much or too little",
    "+.3f",
    cmap="PuOr",
    vmin=-0.1,
    vmax=0.1,
)
draw_map(panels[2], time.mean(axis=0) - truth, "by field", "+.3f", cmap="PuOr", vmin=-0.1, vmax=0.1)
plt.show()

# %% [markdown]
# The constraints that it was given are met, so it is the other functions that find it out. By how
# much a finer belief is better, `compare` says. It judges both by episodes that they were not
# fitted to, on functions that tell fields apart.

# %%
compared = bd.compare(
    {"by field": belief, "by row": {"features": by_row}}, logs, policies, rng_key=jax.random.key(3)
)
print(compared)
az.plot_compare(compared.table)

# %%
assert compared.best == "by field"
assert compared.ties == ("by field",)

# %% [markdown]
# ## What to do differently
#
# * Use the ratio: it says where a candidate will spend its time before it is let loose.
# * Do not quote its intervals as you quote the value's.
# * A ratio on coarse features is a coarse map. Read its verdict, and compare it with a finer one on
#   held-out episodes before you believe either.
