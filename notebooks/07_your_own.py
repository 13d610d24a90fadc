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
# # Your own score, penalty, model and guide
#
# A ticket seller shows one of three offers to two kinds of visitors. Its contract with the
# consultant who proposes new rules is odd: a bonus if the new rule earns at least a tenth more than
# the old one, a fine if it earns less, nothing between. Should the consultant propose a rule at
# all, and which?
#
# No library has this score. It takes three lines. This notebook goes on from there, one layer
# deeper each time: a penalty of one's own, a model of the ratio of one's own, a NumPyro guide of
# one's own. Each is checked against something that is known.

# %%
from functools import partial
from typing import NamedTuple

import arviz as az
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import xlog1py
from numpyro.infer import SVI, Predictive, Trace_ELBO
from numpyro.optim import Adam

import bayesdice_ppl as bd
from bayesdice_ppl.constraint.penalties import PenaltyChoice
from bayesdice_ppl.models import Link

RATES = [[0.30, 0.45, 0.35], [0.50, 0.40, 0.55]]  # by kind of visitor and offer
world = bd.simulation.make_world(
    "contextualbandit", alpha=0.4, candidates=(0.2, 0.5, 0.7, 0.9), arms=RATES
)
logs = bd.simulate(world.env, world.behavior, 300, 1, rng_key=jax.random.key(0))
policies = world.candidates
fit = {"gamma": 0.0, "rng_key": jax.random.key(1)}
belief = bd.fit(logs, policies, include_logged=True, **fit)
truth = {name: float(bd.true_value(world.env, policy, 0.0)) for name, policy in policies.items()}
truth["logged"] = float(bd.true_value(world.env, world.behavior, 0.0))
bd.plots.forest(belief, truth=truth)

# %% [markdown]
# ## A score
#
# A score is a function of values (draws, policies) and a ranking; it gives a loss for each draw.
# Lower is better. Here the last policy of the belief is the logged one.

# %%
BONUS, FINE = 10.0, 25.0


def contract(values, ranking):
    """What the consultant loses with the first policy of the ranking."""
    new, old = values[:, ranking[0]], values[:, -1]
    return np.where(new < old, FINE, 0.0) - np.where(new >= 1.1 * old, BONUS, 0.0)


choice = bd.select(belief, bd.scores.custom(contract, depth=1), must_exclude=["logged"])
print(choice.answer)
careful = bd.select(
    belief, bd.scores.custom(contract, depth=1, risk=bd.risk.cvar(0.1)), must_exclude=["logged"]
)
print("In the worst tenth of the draws:", careful.answer)

# %% [markdown]
# The expected loss is negative: propose. Is it right? The function can be called on the truth.

# %%
true = np.array([[truth[name] for name in [*policies, "logged"]]])
payoff = {name: 0.0 - float(contract(true, [j])[0]) for j, name in enumerate(policies)}
print("True payoff of each proposal:", payoff)
assert payoff[choice.launch[0]] == max(payoff.values())


# %% [markdown]
# ## A penalty
#
# The data enter by a convex penalty f of the residual of the constraints. The default is a square
# in units of the residual's covariance Sigma. A square lets one bad residual count for much. Say we
# want one that grows linearly: f(x) = c^2 sum log cosh(z / c) with z = L^-1 x and Sigma = L L'. A
# penalty brings its conjugate f* and the multipliers at which the two meet.


# %%
class LogCosh(NamedTuple):
    """c^2 sum log cosh(z / c): a square for small z, linear for large ones."""

    factor: jax.Array  # L
    rows: jax.Array  # 1 for the rows of the residual that count
    c: float

    def _whiten(self, residual):
        live = residual * self.rows
        return jax.scipy.linalg.solve_triangular(self.factor, live.T, lower=True).T

    def value(self, residual):
        z = self._whiten(residual) / self.c
        return self.c**2 * (jnp.logaddexp(z, -z) - jnp.log(2.0)).sum(-1)

    def conjugate(self, beta):
        u = (beta @ self.factor) / self.c  # within -1 and 1
        return 0.5 * self.c**2 * (xlog1py(1 + u, u) + xlog1py(1 - u, -u)).sum(-1)

    def maximizer(self, residual):
        return self.unwhiten(self._whiten(residual))

    def unwhiten(self, whitened):
        u = self.c * jnp.tanh(whitened * self.rows / self.c)
        return jax.scipy.linalg.solve_triangular(self.factor.T, u.T, lower=False).T

    def whitening(self):
        return None  # it is no square


def log_cosh(c):
    """The penalty as it is asked for: `make` gets Sigma, the rows that count, and c."""

    def make(covariance, rows, c):
        return LogCosh(jnp.linalg.cholesky(covariance), rows, c)

    return PenaltyChoice(f"log_cosh({c:g})", make, parameter=c, calibrated=True)


# %% [markdown]
# Two checks. Fenchel: f(x) = beta'x - f*(beta) at the maximizer. And with a large c it is the
# square, whose posterior is known in closed form.

# %%
with jax.enable_x64(True):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    one = LogCosh(jnp.linalg.cholesky(jnp.asarray(root @ root.T)), jnp.ones(3), 0.7)
    x = jnp.asarray(rng.normal(size=3))
    beta = one.maximizer(x)
    np.testing.assert_allclose(one.value(x), beta @ x - one.conjugate(beta), rtol=1e-10)

exact = bd.fit(logs, policies, **fit)
nearly = bd.fit(
    logs, policies, constraint=bd.Constraint(penalty=log_cosh(1000.0)), inference="svi", **fit
)
linear_tail = bd.fit(
    logs, policies, constraint=bd.Constraint(penalty=log_cosh(0.05)), inference="svi", **fit
)


def moments(one):
    """Mean and sd of each value."""
    found = one["constant_data"]
    return np.stack([found["guide_mean"].values, found["guide_sd"].values]).round(4)


print("square, closed form:   ", *moments(exact))
print("log cosh, c = 1000:    ", *moments(nearly))
print("log cosh, c = 0.05:    ", *moments(linear_tail))
assert np.all(abs(moments(nearly)[0] - moments(exact)[0]) < 0.1 * moments(exact)[1])
assert np.all(abs(moments(nearly)[1] / moments(exact)[1] - 1) < 0.1)

# %% [markdown]
# With a large c the two agree. With a small one the belief is wider: a linear tail holds a draw
# less tightly. Such intervals are not those of the sampling error any more. Of all penalties only
# the default is calibrated by construction, so ask `bd.calibrate` about yours before anybody uses
# it.

# %% [markdown]
# ## A model of the ratio
#
# By default the ratio is linear in its weights, so that a draw of it may be negative. A ratio is
# never negative. Here is one that cannot be: exp of a number for each pair, with a normal prior on
# the log. A model is an object with `build`, and what it builds has the methods of
# `bd.models.Ratio`. The linear ratio lends it a first estimate and coordinates.


# %%
EXP = Link("exp", jnp.exp, jnp.log, jnp.reciprocal)


class PositiveRatio(eqx.Module):
    """exp(latent) at every logged pair that the candidate can reach."""

    moments: bd.moments.Moments
    rough: bd.models.LinearRatio
    prior: bd.Prior = eqx.field(static=True)
    width: float = eqx.field(static=True)
    refreshes = 1
    model = bd.models.model
    guide = bd.models.guide

    def latent_prior(self):
        return dist.Normal(jnp.zeros_like(self.moments.active), self.width).to_event(1)

    def value_prior(self):
        return bd.models.value_prior(self.moments, self.prior)

    def by_pair(self, latent):
        return jnp.exp(latent) * self.moments.active

    recorded = by_pair

    def residual(self, latent):
        return self.moments.residual(self.by_pair(latent))

    def estimate(self, noise, start=None):
        return self.rough.estimate(noise, start)

    def coordinates(self, noise, rows, *, value_constraint):
        found = self.rough.coordinates(noise, rows, value_constraint=value_constraint)
        return bd.models.through_link(found, EXP, value_constraint=value_constraint)


class Positive(NamedTuple):
    """The model as it is asked for."""

    width: float = 2.0
    linear = False

    def record(self, *, tabular):
        return "ratio", "pair" if tabular else "feature"

    def build(self, cells, moments, prior):
        rough = bd.models.linear().build(cells, moments, prior)
        return PositiveRatio(moments, rough, prior, self.width)

    def __str__(self):
        return f"positive({self.width:g})"


positive = bd.fit(logs, policies, model=Positive(), inference="svi", **fit)
print("linear, closed form: ", *moments(exact))
print("positive, SVI:       ", *moments(positive))
print("least ratio of a draw: linear", exact["posterior/weights"].values.min().round(3))
print("                       positive", positive["posterior/ratio"].values.min().round(3))
assert positive["posterior/ratio"].values.min() >= 0
assert np.all(abs(moments(positive)[0] - moments(exact)[0]) < 0.25 * moments(exact)[1])

# %% [markdown]
# The values are the same. With three hundred visitors the log says what the ratio is, and the prior
# has little to add. What is gained is a ratio of which every draw makes sense.

# %%
az.plot_forest(
    {"linear": exact, "positive": positive},
    var_names=["value"],
    labels=["policy"],
    combined=True,
    figure_kwargs={"figsize": (8, 3.5), "figsize_units": "inches"},
).add_legend("model", title="", loc="lower right", bbox_to_anchor=(1.12, 0.1))

# %% [markdown]
# ## A guide
#
# The model is a plain NumPyro function: trace it, and write a guide of your own. One thing is to be
# known. Some constraints are nearly exact, so that the posterior is as thin as a sheet of paper,
# and a guide in the raw numbers does not get there. `coordinates` are numbers in which it is round:
# latent = center + factor y. Our guide takes every y as independent.

# %%
prepared = bd.prepare(logs, policies, gamma=0.0, constraint=bd.Constraint(small_sample=False))


def independent(ratio, constraint, *, coordinates, **_):
    """Independent normal numbers in the coordinates."""
    center, factor = coordinates
    loc = numpyro.param("loc", jnp.full_like(center, 2.0))
    log_scale = numpyro.param("log_scale", jnp.ones_like(center))
    y = numpyro.sample(
        "y", dist.Normal(loc, jnp.exp(log_scale)).to_event(1), infer={"is_auxiliary": True}
    )
    latent = center + factor @ y
    # The change of variables, so that the ELBO is that of (zeta, value).
    volume = -jnp.log(jnp.abs(jnp.diagonal(factor))).sum()
    numpyro.sample("zeta", dist.Delta(latent[:-1], log_density=volume, event_dim=1))
    numpyro.sample("value", dist.Delta(latent[-1]))


with jax.enable_x64(True):
    ratio, constraint, coordinates = prepared.problem.of(3)  # alpha_0.90
    guide = partial(independent, coordinates=coordinates)
    svi = SVI(partial(bd.models.model, inner="exact"), guide, Adam(0.02), Trace_ELBO(8))
    found = svi.run(jax.random.key(3), 3000, ratio, constraint, progress_bar=False)
    sample = Predictive(guide, params=found.params, num_samples=4000)
    ours = np.asarray(sample(jax.random.key(4), ratio, constraint)["value"])
    loss = np.asarray(found.losses)

plain = bd.fit(logs, policies, constraint=bd.Constraint(small_sample=False), **fit)
closed = plain["posterior/value"].sel(policy="alpha_0.90").values
print(f"our guide    {ours.mean():.4f} +- {ours.std():.4f}")
print(f"closed form  {closed.mean():.4f} +- {closed.std():.4f}")

# %%
beliefs = {
    "our guide": az.from_dict({"posterior": {"value": ours[None]}}),
    "closed form": az.from_dict({"posterior": {"value": closed}}),
}
az.plot_dist(
    beliefs, var_names=["value"], figure_kwargs={"figsize": (8, 3), "figsize_units": "inches"}
).add_legend("model", title="", loc="upper right")

# %%
assert abs(ours.mean() - closed.mean()) < 0.2 * closed.std()
assert 0.8 < ours.std() / closed.std() < 1.2

# %% [markdown]
# ## What to do differently
#
# * Write your contract down as a score before you look at candidates. Three lines do.
# * Check what you bring against something known: a penalty by Fenchel's equality and by its limit,
#   a model by another model, a guide by a closed form.
# * Stay with the default penalty where intervals are to cover.
