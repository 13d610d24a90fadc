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
# # FrozenLake: from logs to launch
#
# A courier crosses a frozen lake. The ice is slippery, it has holes, and the goal pays 1. The
# controller that runs today often blunders. The team has five new ones. Only two can be tried on
# the ice this winter. Which two, and is one of them sure to be better than what we have?
#
# This notebook goes the whole way: logs, check, belief, diagnosis, ranking, launch. The lake is a
# simulation, so at the end we can see who was right.

# %%
import tempfile
from pathlib import Path

import arviz as az
import jax
import matplotlib.pyplot as plt
import numpy as np

import bayesdice_ppl as bd

GAMMA = 0.99
world = bd.simulation.make_world("frozenlake", alpha=0.0, candidates=(1.0,))

# Left, down, right, up: 0 to 3. On ice a step goes astray to the side two times of three, so that
# steering into a wall is often the safest.
careful = np.asarray(world.candidates["alpha_1.00"].probs(np.arange(16))).argmax(axis=1)
bold = np.array([1, 2, 1, 0, 1, 0, 1, 0, 2, 1, 1, 0, 0, 2, 2, 0])  # straight to the goal
near_goal = np.isin(np.arange(16), [10, 13, 14])
controllers = {
    "careful": careful,
    "bold": bold,
    "bold at the end": np.where(near_goal, bold, careful),
    "bold at the start": np.where(near_goal, careful, bold),
    "wall on 9": np.where(np.arange(16) == 9, 0, careful),
}
policies = bd.Policies({name: np.eye(4)[actions] for name, actions in controllers.items()})
logs = bd.simulate(world.env, world.behavior, 10, 400, rng_key=jax.random.key(1))
logs

# %% [markdown]
# A log is a table with one row per step. Yours comes from a file (`bd.read_logs("logs.parquet",
# columns={"action": "item_id"})`) or a dataframe (`bd.Logs.from_dataframe(df)`).

# %%
logs.to_dataframe().head()

# %% [markdown]
# ## Where has the courier been?
#
# Before any method runs: which fields does the log hold, and how often? Fields that it never saw,
# nobody can judge.

# %%
visits = np.bincount(logs.to_dataframe()["state"].cast(int), minlength=16).reshape(4, 4)
field = np.array([list("SFFF"), list("FHFH"), list("FFFH"), list("HFFG")])


def draw_lake(axes, numbers, title, fmt, **options):
    """The lake as a map, with a number on each field."""
    image = axes.imshow(np.where(np.isin(field, ["H", "G"]), np.nan, numbers), **options)
    for row, column in np.ndindex(4, 4):
        letter = {"H": "hole", "G": "goal"}.get(field[row, column])
        text = letter or format(numbers[row, column], fmt)
        axes.text(column, row, text, ha="center", va="center", color="0.35" if letter else "black")
    axes.set(title=title, xticks=[], yticks=[])
    return image


figure, axes = plt.subplots(figsize=(4, 3.6))
draw_lake(axes, visits, "visits in the log", "d", cmap="Blues", vmax=2 * visits.max())
plt.show()

# %% [markdown]
# ## A belief
#
# `fit` makes one joint belief over the values of all candidates. With labels for states it is a
# closed form. The result is a plain ArviZ DataTree.

# %%
belief = bd.fit(logs, policies, gamma=GAMMA, rng_key=jax.random.key(2), include_logged=True)
az.summary(belief, var_names=["value"], kind="stats", round_to=5)

# %%
bd.plots.forest(belief)

# %% [markdown]
# ## What to believe, and what not

# %%
print(bd.diagnose(belief, logs, policies))

# %% [markdown]
# Two lines deserve a look.
#
# The self-check is good news. The logging policy, fitted like a candidate, agrees with what the
# logs earned.
#
# The range is not. A large part of some beliefs lies below zero, where no reward is. The belief
# does not know that a crossing pays 0 or 1. We do, so we say it.

# %%
binary = bd.Prior(rewards="binary")
belief = bd.fit(
    logs,
    policies,
    gamma=GAMMA,
    rng_key=jax.random.key(2),
    include_logged=True,
    prior=binary,
)
diagnosis = bd.diagnose(belief, logs, policies)
print(diagnosis)
assert all(verdict.word == "good" for verdict in diagnosis.verdicts)
bd.plots.ridge(belief)

# %% [markdown]
# The two bold ones have long tails to the right. They step where the log rarely did, and a thin log
# leaves room for much. How do the values move together? All candidates are judged on the same logs.
# Those that share steps share errors.

# %%
bd.plots.dependence(belief)

# %% [markdown]
# ## A ranking for the score that counts
#
# Two go on the ice. Then the better one stays. So what counts is how much worse the better of our
# two is than the best of all: regret@2.

# %%
score = bd.scores.regret(k=2)
choice = bd.select(belief, score)
choice

# %%
print(choice.answer)
print(choice.certificate.statement)
bd.plots.top_k(belief, 2)

# %% [markdown]
# The first place is no question. For the second look at the figure: `wall on 9` is more often among
# the best two than `bold at the start` is. But where the bold one is better, it is better by much,
# and regret counts by how much. It is the better insurance. Would one trial do as well, or should
# the team ask for three?

# %%
top = bd.rank_probabilities(belief).sel(place=[1, 2]).sum("place")
assert top.sel(policy="wall on 9") > top.sel(policy="bold at the start")
assert choice.launch == ["careful", "bold at the start"]

# %%
bd.plots.loss_by_k(belief, bd.scores.regret)

# %% [markdown]
# And the head of operations asks: will it be better than today's controller? `safe_improvement`
# launches only what is worse than the logged policy with a probability below 5 %.

# %%
safe = bd.select(belief, bd.scores.safe_improvement("logged", xi=0.05, k=2))
print(safe.answer)
value = belief["posterior/value"].squeeze("chain")
worse = (value < value.sel(policy="logged")).mean("draw")
print({str(name): round(float(p), 3) for name, p in zip(worse.policy.values, worse, strict=True)})

# %% [markdown]
# ## What to log next
#
# If one more week on the ice were possible: whose value is worth knowing?

# %%
print(bd.value_of_information(belief, score))

# %% [markdown]
# ## Launch
#
# The belief and the ranking are files that somebody else can open.

# %%
with tempfile.TemporaryDirectory() as folder:
    bd.save_belief(belief, Path(folder) / "belief.nc")
    again = bd.load_belief(Path(folder) / "belief.nc")
assert bd.select(again, score).launch == choice.launch
print("Go live:", ", ".join(choice.launch))

# %% [markdown]
# ## The truth, for once

# %%
truth = {name: float(bd.true_value(world.env, policy, GAMMA)) for name, policy in policies.items()}
truth["logged"] = float(bd.true_value(world.env, world.behavior, GAMMA))
bd.plots.forest(belief, truth=truth)

# %%
candidates = {name: v for name, v in truth.items() if name != "logged"}
regret = max(candidates.values()) - max(candidates[name] for name in choice.launch)
print(f"Launched {', '.join(choice.launch)}: true regret {regret:.4f} reward per step.")
assert max(candidates, key=candidates.get) == "careful"

# %% [markdown]
# One log may be luck. Forty more winters: how often does the interval hold the truth, and how often
# is the best controller among the two?

# %%
held, found, lost = [], 0, {"ranked by regret@2": [], "ranked by the mean": []}
names = list(policies)
for winter in range(40):
    fresh = bd.simulate(world.env, world.behavior, 10, 400, rng_key=jax.random.key(100 + winter))
    fitted = bd.fit(fresh, policies, gamma=GAMMA, rng_key=jax.random.key(winter), draws=1000)
    drawn = fitted["posterior/value"].squeeze("chain")
    low, high = drawn.quantile(0.05, "draw").values, drawn.quantile(0.95, "draw").values
    true = np.array([truth[name] for name in names])
    held.append((low <= true) & (true <= high))
    launched = {
        "ranked by regret@2": bd.select(fitted, score).launch,
        "ranked by the mean": [names[i] for i in np.argsort(-drawn.mean("draw").values)[:2]],
    }
    found += "careful" in launched["ranked by regret@2"]
    for rule, two in launched.items():
        lost[rule].append(candidates["careful"] - max(candidates[name] for name in two))
share = np.mean(held, axis=0)
print(f"90 % intervals held the truth in {share.min():.0%} to {share.max():.0%} of 40 logs.")
print(f"The best controller was among the two in {found} of 40.")
for rule, regrets in lost.items():
    error = np.std(regrets) / np.sqrt(len(regrets))
    print(f"Mean true regret, {rule}: {np.mean(regrets):.5f} (standard error {error:.5f})")
assert share.mean() > 0.75

# %% [markdown]
# A surprise: on this lake, a sort by the mean did no worse than the ranking that was made for
# regret@2. Where the log was thin, the second kind bought insurance for both places, against two
# bold controllers that in truth are bad. Insurance pays over the worlds that a belief thinks
# possible. In one world that needs none it only costs. [Another notebook](06_scores.ipynb) looks at
# many worlds.

# %% [markdown]
# ## What to do differently
#
# * Say what you know of rewards. Here one word took out all that could not be.
# * Do not read a ranking off intervals. The second place went to the better insurance.
# * Say what you are judged by before you rank. Two trials ask for another answer than one.
# * Ask the safe question too. It is one line, from the same belief.
