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
# # Quickstart: real clicks, five candidates, two slots
#
# A fashion store shows items on its front page. Ten thousand impressions were logged by a policy
# that chooses at random. Five policies are proposed. Two may go live. Which two?
#
# The data are real: a sample of ZOZO's Open Bandit Dataset, which comes with the library. So the
# truth is not known here. The other notebooks have worlds in which it is.

# %%
import arviz as az
import jax
import numpy as np

import bayesdice_ppl as bd

# %% [markdown]
# ## Logs and candidates
#
# A log is a table with one row per step; here an impression is an episode of one step. Yours comes
# from a file (`bd.read_logs("logs.parquet", columns={"action": "item_id"})`) or a dataframe
# (`bd.Logs.from_dataframe(df)`).

# %%
logs, policies, *_ = bd.datasets.open_bandit()
logs

# %%
logs.to_dataframe().select("state", "action", "reward", "propensity").head()

# %% [markdown]
# The state is the place on the page, the action is the item, the reward is a click. Clicks are
# rare.

# %%
table = logs.to_dataframe()
clicks, share = int(table["reward"].sum()), table["reward"].mean()
print(f"{clicks} clicks in {len(table):,} impressions ({share:.2%}).")
print("Candidates:", ", ".join(policies))

# %% [markdown]
# ## A belief
#
# `fit` gives one joint belief over the values of all candidates, as an ArviZ DataTree. An
# impression is a decision of its own, so the discount gamma is 0.

# %%
belief = bd.fit(logs, policies, gamma=0.0, rng_key=jax.random.key(1))
az.summary(belief, var_names=["value"], kind="stats", round_to=5)

# %%
bd.plots.forest(belief)

# %% [markdown]
# `bts_sharp` looks best, and is the least certain. All intervals overlap. But errors on the same
# logs move together, and what counts is the difference.

# %%
bd.plots.dependence(belief)

# %%
value = belief["posterior/value"].squeeze("chain")
better = float((value.sel(policy="bts_sharp") > value.sel(policy="bts")).mean())
print(f"P(bts_sharp is better than bts) = {better:.2f}")

# %% [markdown]
# ## What to believe, and what not
#
# A verdict for each candidate, with its reasons, and how well the log covers each.

# %%
diagnosis = bd.diagnose(belief, logs, policies)
for verdict in diagnosis.verdicts:
    print(verdict)

# %%
bd.plots.support(belief)

# %% [markdown]
# ## A ranking for the score you care about
#
# Two go live, and the better one stays. So we are judged by regret@2: how much worse is the better
# of our two than the best of all five?

# %%
choice = bd.select(belief, bd.scores.regret(k=2))
print(choice.answer)
print(choice.certificate.statement)

# %% [markdown]
# The second is not the one with the second-highest mean. `bts` and `bts_sharp` are right or wrong
# together, so that `bts` would insure little. The certificate says how close the call is.
#
# Another score uses the same belief, without fitting again.

# %%
print(bd.select(belief, bd.scores.precision(k=2)).answer)


# %% [markdown]
# Or a score of your own: the probability that the first choice is worth less than what the logs
# earned.


# %%
def worse_than_logged(values, ranking):
    """1 where the first choice is worth less than what the logs earned."""
    return (values[:, ranking[0]] < belief.attrs["logged_value"]).astype(float)


print(bd.select(belief, bd.scores.custom(worse_than_logged, depth=1)).answer)
bd.plots.top_k(belief, 2)

# %% [markdown]
# ## Would it be worth while to log more?

# %%
print(bd.value_of_information(belief, bd.scores.regret(k=2)))
gain = float((value.max("policy") - value.sel(policy=choice.launch).max("policy")).mean())
assert np.isclose(gain, choice.expected_loss, rtol=1e-6)

# %% [markdown]
# ## What to do now
#
# * Launch the two that the score names, and look at the certificate: a tie is a tie.
# * On your own logs, begin with `bd.check(logs, policies, gamma=0.0)`, which finds faults of a
#   table.
# * [FrozenLake, from logs to launch](02_frozen_lake.ipynb) goes the same way in a world with a
#   future, where the truth is known.
