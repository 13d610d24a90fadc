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
# # Exploration: how a belief over policies sharpens
#
# RiverSwim has six places. Drifting left is sure and pays a little; swimming right often fails, and
# pays at the far end alone. Nothing is logged at first. Each round plays the policy that may be
# best, for 100 steps from the left bank.

# %%
from itertools import product

import jax
import matplotlib.pyplot as plt
import numpy as np

import bayesdice_ppl as bd

GAMMA, STEPS = 0.99, 100
world = bd.simulation.make_world("riverswim")
rewards = bd.models.pair_prior(0.0, 1.0)
done = bd.exploration.explore(
    world.env,
    bd.exploration.bayesdice(),
    rounds=60,
    steps=STEPS,
    gamma=GAMMA,
    rewards=rewards,
    rng_key=jax.random.key(0),
)
done.rounds.drop("seconds").head(12)

# %% [markdown]
# ## Beliefs of all 64 policies
#
# The world is small, so we can look at every deterministic policy. After each round, the log gives
# the belief of each: a mean and a standard deviation, in closed form. A policy is still in the
# running if its upper quantile is above the lower quantile of the one that is best in the mean.


# %%
def counts_after(rounds):
    """The log of the first rounds, as counts of all pairs."""
    n, logs = rounds * STEPS, done.logs
    label = logs.state_labels
    sums = np.zeros((3, 6, 2, 6))
    at = (label[logs.state[:n]], logs.action_labels[logs.action[:n]], label[logs.next_state[:n]])
    for table, weight in zip(sums, (1.0, logs.reward[:n], logs.reward[:n] ** 2), strict=True):
        np.add.at(table, at, weight)
    starts = np.zeros(6)
    starts[0] = rounds
    return bd.models.PairCounts(*sums, starts)


policies = [np.eye(2)[list(actions)] for actions in product(range(2), repeat=6)]
truth = np.array([bd.true_value(world.env, policy, GAMMA) for policy in policies])
order = np.argsort(truth)


def beliefs_after(rounds):
    """Mean and sd of every policy's value."""
    pairs = bd.models.pair_beliefs(counts_after(rounds), rewards)
    found = [bd.models.policy_belief(pairs, policy, GAMMA) for policy in policies]
    mean = np.array([one.mean for one in found])
    return mean, np.sqrt([one.variance for one in found])


# %%
shown = (1, 3, 10, 60)
figure, panels = plt.subplots(1, len(shown), figsize=(12, 3.2), sharey=True, layout="constrained")
running = []
for panel, rounds in zip(panels, shown, strict=True):
    mean, sd = beliefs_after(rounds)
    best = mean.argmax()
    running.append(int((mean + 1.645 * sd >= mean[best] - 1.645 * sd[best]).sum()))
    panel.errorbar(range(64), mean[order], 1.645 * sd[order], fmt=".", lw=0.8, label="belief, 90 %")
    panel.plot(range(64), truth[order], color="black", label="true value")
    after = f"after {rounds} round{'s' if rounds > 1 else ''}"
    panel.set(title=f"{after}:\n{running[-1]} in the running", xlabel="policy")
panels[0].set_ylabel("value (reward per step)")
panels[0].legend()
plt.show()

# %% [markdown]
# ## What it cost
#
# Regret is what was lost against the best policy. It stops once the river's end is found.

# %%
plt.plot(done.rounds["round"], done.rounds["regret"])
plt.xlabel("round")
plt.ylabel("regret (reward)")
plt.ylim(bottom=0)
plt.show()
print(
    f"In the running after {shown[0]} round: {running[0]} of 64; after {shown[-1]}: {running[-1]}. "
    f"The last policy is within {1 - done.rounds['value'][-1] / done.best:.1%} of the best."
)
