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
# # A million rows, sixty candidates
#
# A streaming service has a hundred kinds of situations, five things to do in each, and a log of a
# million steps. An optimizer proposed sixty variants of its rules. Three can be tried next week. Is
# the log enough to find the best ones? Would a tenth of it do?
#
# The service is a random world (a Garnet), so that all true values are known exactly.

# %%
import tempfile
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

import bayesdice_ppl as bd

GAMMA = 0.95
world = bd.simulation.make_world(
    "garnet", alpha=0.3, candidates=(1.0,), world_seed=3, n_states=100, n_actions=5
)
best_action = np.asarray(world.candidates["alpha_1.00"].probs(np.arange(100)))
rng = np.random.default_rng(0)
variants = {}
for number in range(60):
    score = 3.0 * best_action + 1.5 * rng.normal(size=(100, 5))
    chance = np.exp(score)
    variants[f"variant {number:02d}"] = chance / chance.sum(axis=1, keepdims=True)

# %% [markdown]
# ## The file
#
# A million rows in Parquet. Your log is read the same way, and from many files as well.

# %%
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "log.parquet"
    played = bd.simulate(world.env, world.behavior, 20_000, 50, rng_key=jax.random.key(0))
    played.to_dataframe().write_parquet(file)
    print(f"{file.stat().st_size / 2**20:.0f} MiB")
    logs = bd.read_logs(file)
print(logs)

# %% [markdown]
# ## A belief
#
# The log is counted once: what the belief needs of it are counts of pairs and of what followed.
# After that the rows do not matter, only the five hundred pairs do.

# %%
belief = bd.fit(logs, variants, gamma=GAMMA, rng_key=jax.random.key(1), draws=2000)
print(f"{belief.attrs['n_transitions']:,} rows, {belief['posterior'].sizes['policy']} values")

# %%
choice = bd.select(belief, bd.scores.regret(k=3))
print(choice.answer)
print(choice.certificate.statement)
bd.plots.forest(belief, order=choice.order[:12])

# %%
diagnosis = bd.diagnose(belief, logs, variants)
words = [verdict.word for verdict in diagnosis.verdicts]
print({word: words.count(word) for word in sorted(set(words))})

# %% [markdown]
# There are 34,220 sets of three. The certificate says what was proven of them. How many should be
# tried? The figure has the expected regret of the best set of each size.

# %%
bd.plots.loss_by_k(belief, bd.scores.regret, range(1, 9))

# %% [markdown]
# ## The truth
#
# Sixty linear systems of a hundred states.

# %%
truth = {name: float(bd.true_value(world.env, table, GAMMA)) for name, table in variants.items()}
ranked = sorted(truth, key=truth.get, reverse=True)
regret = truth[ranked[0]] - max(truth[name] for name in choice.launch)
place = min(ranked.index(name) for name in choice.launch) + 1
spread = truth[ranked[0]] - truth[ranked[-1]]
print(f"The best of the three is truly number {place} of 60.")
print(f"Its regret is {regret / spread:.1%} of the range of the true values.")
bd.plots.forest(belief, order=choice.order[:12], truth={n: truth[n] for n in choice.order[:12]})

# %%
value = belief["posterior/value"].squeeze("chain")
true = np.array([truth[name] for name in variants])
low, high = value.quantile(0.05, "draw").values, value.quantile(0.95, "draw").values
held = float(np.mean((low <= true) & (true <= high)))
print(f"90 % intervals hold {held:.0%} of the sixty true values.")

# %% [markdown]
# All sixty come from one log, and their errors move together. So this share is one draw, and no
# measure of coverage.
#
# ## Would a tenth do?

# %%
table = logs.to_dataframe()
sizes, sds, expected, lost = [1_000, 10_000, 100_000, 1_000_000], [], [], []
for size in sizes:
    one = belief
    if size < len(table):
        part = bd.Logs.from_dataframe(table.head(size))
        one = bd.fit(part, variants, gamma=GAMMA, rng_key=jax.random.key(2), draws=2000)
    picked = bd.select(one, bd.scores.regret(k=3))
    sds.append(float(one["posterior/value"].std(("chain", "draw")).median()))
    expected.append(picked.expected_loss)
    lost.append(truth[ranked[0]] - max(truth[name] for name in picked.order[:3]))
    print(f"{size:>9,} rows: sd {sds[-1]:.4f}, regret {expected[-1]:.5f}, true {lost[-1]:.5f}")

figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
panels[0].loglog(sizes, sds, "o-")
panels[0].set(xlabel="rows", ylabel="sd of a value (reward per step)")
panels[1].plot(sizes, expected, "o-", label="expected by the belief")
panels[1].plot(sizes, lost, "kX", markersize=8, label="true")
panels[1].set(xscale="log", xlabel="rows", ylabel="regret@3 (reward per step)")
panels[1].legend(frameon=False)
plt.show()

# %%
shrunk = sds[1] / sds[3]
print(f"A hundred times as many rows make a value {shrunk:.1f} times as sure.")
assert 5 < shrunk < 20
assert expected[3] < expected[1]

# %% [markdown]
# A tenth does, for this question: from a hundred thousand rows on next to no regret is expected.
# The rest of the log makes the numbers finer, and not the choice. The belief from a thousand rows
# chose well too, but could not know it: it expected to lose. That was luck, and a belief does not
# count on luck.

# %%
assert expected[2] < 0.01 * spread
assert max(lost[2:]) < 0.01 * spread

# %% [markdown]
# ## What to do differently
#
# * Before you wait for more rows, fit the first tenth of those you have, and look at the expected
#   regret.
# * Sixty candidates need no correction for looking at many: the belief is joint, and the score
#   looks at all of them at once.
# * A million rows are a million facts only if rows are independent. [Patients](09_patients.ipynb)
#   has what happens where they are not.
