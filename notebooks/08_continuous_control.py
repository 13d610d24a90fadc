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
# # Continuous control: a pendulum, a robot arm and a network
#
# A motor holds a pendulum. The engineers have a controller that works, and three others: one that
# pumps harder, one softer, one with a noisy drive. Mounting one costs a day. Which should be
# mounted, if all that is there are the recordings of the old one?
#
# States are vectors and torques are numbers, so no two rows are alike. The ratio has to be a
# function. By default it is the ratio of the action densities, times the exponential of smooth
# features. A network can take the place of the features. We look at both, on Pendulum and on
# Reacher, against true values.

# %%
import arviz as az
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import bayesdice_ppl as bd

GAMMA = 0.99

# %% [markdown]
# ## A pendulum
#
# Gymnasium's Pendulum, many copies at once in NumPy. The reward is minus the squared angle from the
# top, and a little for speed and torque.


# %%
def controller(pump):
    """Mean torque for (cos, sin, speed): pump energy when it lacks, damp near the top."""

    def mean(obs):
        cosine, sine, speed = obs[:, 0], obs[:, 1], obs[:, 2]
        lacking = -(speed**2 / 6.0 + 5.0 * (cosine - 1.0))
        near = (1.0 + cosine) / 2.0
        pumped = 2.0 * jnp.tanh(pump * lacking * speed / 2.0)
        return (pumped - near * (sine + 0.2 * speed))[:, None]

    return mean


old = bd.GaussianPolicy(controller(0.03), 0.8)
policies = {
    "harder": bd.GaussianPolicy(controller(0.05), 0.6),
    "softer": bd.GaussianPolicy(controller(0.02), 0.6),
    "noisy": bd.GaussianPolicy(controller(0.03), 1.1),
}


def observe(state):
    return np.stack([np.cos(state[:, 0]), np.sin(state[:, 0]), state[:, 1]], axis=1)


def play(policy, copies, steps, rng):
    """Observations, torques, rewards and densities, each (steps, copies, ...)."""
    state = rng.uniform([-np.pi, -1.0], [np.pi, 1.0], size=(copies, 2))
    mean, sd = jax.jit(policy.mean), float(policy.sd)
    seen = []
    for _ in range(steps):
        obs = observe(state)
        noise = rng.standard_normal(copies)
        torque = np.asarray(mean(obs))[:, 0] + sd * noise
        angle, speed = (state[:, 0] + np.pi) % (2 * np.pi) - np.pi, state[:, 1]
        force = np.clip(torque, -2.0, 2.0)
        reward = -(angle**2 + 0.1 * speed**2 + 0.001 * force**2)
        speed = np.clip(speed + 0.05 * (15.0 * np.sin(angle) + 3.0 * force), -8.0, 8.0)
        state = np.stack([angle + 0.05 * speed, speed], axis=1)
        density = np.exp(-(noise**2) / 2) / (sd * np.sqrt(2 * np.pi))
        seen.append((obs, torque, reward, density, observe(state)))
    return [np.array(each) for each in zip(*seen, strict=True)]


rng = np.random.default_rng(0)
EPISODES, STEPS = 25, 200
obs, torque, reward, density, following = play(old, EPISODES, STEPS, rng)


def column(x):
    """Episode after episode."""
    return np.swapaxes(x, 0, 1).reshape(EPISODES * STEPS, *x.shape[2:])


table = {f"obs_{j}": column(obs)[:, j] for j in range(3)}
table |= {f"next_obs_{j}": column(following)[:, j] for j in range(3)}
table |= {
    "episode_id": np.repeat(np.arange(EPISODES), STEPS),
    "step": np.tile(np.arange(STEPS), EPISODES),
    "action_0": column(torque),
    "reward": column(reward),
    "propensity": column(density),
}
logs = bd.Logs.from_dataframe(pl.DataFrame(table))
logs

# %% [markdown]
# Where was the old controller? And how much is each of these rows worth to another one?

# %%
belief = bd.fit(logs, policies, gamma=GAMMA, rng_key=jax.random.key(1))
ratio = belief["constant_data/pilot_ratio"].sel(policy="harder").values
angle = np.arctan2(table["obs_1"], table["obs_0"])
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
dots = axes.scatter(
    angle, table["obs_2"], c=np.clip(ratio, 0.0, 3.0), s=4, cmap="viridis", rasterized=True
)
axes.set(xlabel="angle from the top (rad)", ylabel="speed (rad/s)", title="Ratio of 'harder'")
figure.colorbar(dots, label="ratio (3 and more: yellow)")
plt.show()

# %% [markdown]
# The harder controller gets closer to the top than the old one did: its ratio is above one there,
# and on the outer swings that lead up.

# %%
truth, error = {}, {}
for name, policy in policies.items():
    rewards = play(policy, 2000, 800, np.random.default_rng(1))[2]
    weight = (1 - GAMMA) * GAMMA ** np.arange(800)
    returns = weight @ rewards
    truth[name], error[name] = float(returns.mean()), float(returns.std() / np.sqrt(2000))
print({name: f"{truth[name]:.2f} +- {error[name]:.2f}" for name in truth})
bd.plots.forest(belief, truth=truth)

# %%
print(bd.select(belief, bd.scores.regret(k=1)).answer)
for verdict in bd.diagnose(belief, logs, policies).verdicts:
    print(verdict)


# %%
def off(one, known):
    """How far means are from the truth, in sds of the belief."""
    value = one["posterior/value"].squeeze("chain")
    return {
        name: round(float((value.sel(policy=name).mean() - v) / value.sel(policy=name).std()), 1)
        for name, v in known.items()
    }


print("off by, in sds:", off(belief, truth))

# %% [markdown]
# ## A robot arm, and a network
#
# Reacher has an arm of two joints whose hand has to get to a place. Its states are ten numbers.
# Three policies between an untrained one and a trained one are judged from fifteen episodes of the
# old one. Twice: once with the default's smooth features, once with a small network for the ratio.
# Their true values are stored with the library, from long simulations.

# %%
arm = bd.simulation.make_world("reacher", alpha=0.5, candidates=(0.75, 0.9, 0.95))
moves = bd.simulate(arm.env, arm.behavior, 15, 100, rng_key=jax.random.key(2))
stored = bd.simulation.known_values(arm, rng_key=jax.random.key(0))
known = {name: float(stored[name]) for name in arm.candidates}
moves

# %% [markdown]
# A fit leaves groups of episodes out in turn, to see how far a value moves. Twenty-five networks
# would take long. So here neither belief does it (`jackknife=0`), and both are a little too narrow.

# %%
quick = {"gamma": GAMMA, "rng_key": jax.random.key(3), "numerics": bd.Numerics(jackknife=0)}
smooth = bd.fit(moves, arm.candidates, **quick)
network = bd.fit(moves, arm.candidates, model=bd.models.neural(width=16), **quick)
for name, one in (("smooth features", smooth), ("network", network)):
    print(name, "off by, in sds:", off(one, known))
    for verdict in bd.diagnose(one, moves, arm.candidates).verdicts:
        print("   ", verdict)

# %%
az.plot_forest(
    {"smooth features": smooth, "network": network},
    var_names=["value"],
    labels=["policy"],
    combined=True,
    figure_kwargs={"figsize": (8, 3.5), "figsize_units": "inches"},
).add_legend("model", title="", loc="lower right", bbox_to_anchor=(1.12, 0.1))

# %%
bd.plots.forest(smooth, truth=known)

# %%
for one in (smooth, network):
    assert bd.select(one, bd.scores.regret(k=2)).order[0] in ("alpha_0.90", "alpha_0.95")

# %% [markdown]
# Both find the same order, and both are a little too low for all three: fifteen episodes were
# unlucky, and errors on the same logs move together. The network's belief is the wider one. It has
# more to learn from the same rows, and nothing here was too jagged for smooth features.
#
# ## What to do differently
#
# * Log the density of each torque. On vectors it is the largest single gain: the ratio starts from
#   it, and only what is left has to be learned.
# * Begin with the default. Ask for a network where the default says that its ratio fails, and then
#   compare the two.
# * Ask for `jackknife=0` only to save time in trying out. For a decision leave it on.
