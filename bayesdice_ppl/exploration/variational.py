"""The policy that may be best, by stochastic variational inference on the optimistic program.

This engine maximizes the paper's objective itself, over q(zeta) and q(pi) together. Its starts are
policies, since the objective has many local optima; all of them climb in one compiled call.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.constraint import ChanceConstraint, chance_price
from bayesdice_ppl.constraint.penalties import Squared
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.exploration.planning import FoundPolicy, judge, planning, with_settings
from bayesdice_ppl.exploration.spaces import Beliefs, PolicySpace, space_of
from bayesdice_ppl.models import (
    Optimism,
    OptimisticRatio,
    PairBeliefs,
    PairPrior,
    optimistic,
)

_MOST_NUMBERS = 2**26
"""Numbers in the covariances of all pairs, for half a gigabyte."""
_START_LOGIT = 3.0
"""Logit of the action that a start takes."""


class FittedProgram(NamedTuple):
    """The result of one start.

    Attributes
    ----------
    parameters
        Those of the guide and of the descending numbers, by name.
    elbo
        The objective's estimate at each step, in units of lambda_2, shape (steps,).
    """

    parameters: dict[str, Array]
    elbo: Float[Array, " steps"]


@final
class Variational(NamedTuple):
    """The engine that optimizes; make one with `variational`.

    Attributes
    ----------
    rewards
        Prior of the pairs.
    starts
        Policies to start from, besides the uniform one.
    steps, learning_rate, particles
        Of Adam; the rate falls to zero along a cosine.
    lambda_2, policy_price
        As for `bayesdice_ppl.models.optimistic`.
    """

    rewards: PairPrior
    starts: int = 3
    steps: int = 1500
    learning_rate: float = 0.1
    particles: int = 4
    lambda_2: float = 1.0
    policy_price: float = 1e-6

    def __str__(self) -> str:
        own = {name: getattr(self, name) for name in self._field_defaults}
        return with_settings("variational", own, self._field_defaults)

    @property
    def averages(self) -> bool:
        """The program's flow is discounted."""
        return False

    def find(
        self, beliefs: Beliefs, gamma: float, optimism: Optimism, rng: np.random.Generator
    ) -> FoundPolicy:
        """The policy at the mean of the best q(pi), by U.

        Parameters
        ----------
        beliefs
            The completed log.
        gamma
            Discount in [0, 1).
        optimism
            U.
        rng
            Seeds the key of the optimizer's draws.

        Raises
        ------
        SettingsError
            There are too many pairs for their covariances.
        """
        shape = beliefs.logit_shape
        space = space_of(beliefs, gamma)
        if isinstance(beliefs, PairBeliefs) and shape[1] * shape[0] ** 3 > _MOST_NUMBERS:
            raise SettingsError(
                f"engine variational: expected fewer pairs, found {shape[0]:,} states and "
                f"{shape[1]:,} actions, whose covariances need too much memory. Use planning()."
            )
        asked = optimistic(
            *shape,
            gamma=gamma,
            rewards=self.rewards,
            optimism=optimism,
            lambda_2=self.lambda_2,
            policy_price=self.policy_price,
        )
        logits, first = np.zeros((1, *shape)), list[FoundPolicy]()
        if self.starts:
            first = planning(refined=1).candidates(beliefs, gamma, optimism)[: self.starts]
            spread = [_START_LOGIT * _unit_size(space, one.policy) for one in first]
            logits = np.concatenate([logits, np.stack(spread)])
        key = jax.random.key(int(rng.integers(2**31)))
        with jax.enable_x64(True):
            if isinstance(beliefs, PairBeliefs):
                ratio = asked.of_counts(beliefs.counts)
            else:
                ratio = asked.of_features(beliefs)
            fitted = fit_program(ratio, logits, key, self)
            found = [np.asarray(loc).reshape(shape) for loc in fitted.parameters["policy_loc"]]
            if isinstance(beliefs, PairBeliefs):
                # Through features the policy is the limit that takes the largest of these.
                found = [np.asarray(jax.nn.softmax(one, axis=1)) for one in found]
        judged = [judge(space, one, optimism) for one in found]
        if not isinstance(beliefs, PairBeliefs):
            # The limit of a softmax may be worse than the softmax, and than where it began.
            judged += first
        return max(judged, key=lambda one: one.score)


def _unit_size(space: PolicySpace, policy: Float[np.ndarray, "K A"]) -> Float[np.ndarray, "K A"]:
    """A policy as logits of size one; a table of zeros and ones has it already."""
    size = float(np.ptp(space.worth(policy), axis=1).max())
    return policy / size if size > 0.0 else policy


def fit_program(
    ratio: OptimisticRatio,
    logits: Float[Any, "K S A"],
    rng_key: PRNGKeyArray,
    settings: Variational,
    *,
    inner: str = "guide",
) -> FittedProgram:
    """Fit q from K starts; call it under ``jax.enable_x64(True)``.

    Parameters
    ----------
    ratio
        Ratio and policy on one log.
    logits
        Where q(pi) starts, shape (K, S, A), or (K, k, A) through features.
    rng_key
        Key of the optimizer's draws.
    settings
        Steps, rate, particles.
    inner
        As for `bayesdice_ppl.models.OptimisticRatio.model`.

    Returns
    -------
    FittedProgram
        With a leading axis over the starts.
    """
    keys = jax.random.split(rng_key, len(logits))
    # The penalty is measured at each policy; only price and epsilon enter.
    n = float(ratio.beliefs.size)
    price = chance_price(n, ratio.n_tests)
    constraint = ChanceConstraint(
        Squared(jnp.ones(ratio.n_tests + 1)), jnp.asarray(n), jnp.asarray(price.epsilon)
    )
    moved = jax.tree.map(jnp.asarray, ratio)
    return _fit(moved, constraint, jnp.asarray(logits), keys, settings, inner)


@partial(
    jax.jit,
    static_argnames=("settings", "inner"),
    # Less optimization compiles in half the time, and runs as fast.
    compiler_options={"xla_backend_optimization_level": 1},
)
def _fit(
    ratio: OptimisticRatio,
    constraint: ChanceConstraint,
    logits: Float[Array, "K S A"],
    keys: Array,
    settings: Variational,
    inner: str,
) -> FittedProgram:
    import equinox as eqx
    import optax
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.optim import optax_to_numpyro

    rate = optax.cosine_decay_schedule(settings.learning_rate, settings.steps)
    svi = SVI(
        lambda r, c: r.model(c, inner=inner),
        lambda r, c: r.guide(c, inner=inner),
        optax_to_numpyro(optax.adam(rate, b1=0.9, b2=0.99)),
        Trace_ELBO(num_particles=settings.particles),
    )

    def one(start: Array, key: Array) -> FittedProgram:
        here = eqx.tree_at(lambda r: r.logits, ratio, start)

        def step(state: Any, _: None) -> tuple[Any, Array]:
            state, loss = svi.update(state, here, constraint)
            return state, -loss

        begin = svi.init(key, here, constraint)
        state, elbo = jax.lax.scan(step, begin, None, length=settings.steps)
        return FittedProgram(svi.get_params(state), elbo)

    return jax.vmap(one)(logits, keys)


def variational(
    rewards: PairPrior,
    *,
    starts: int = 3,
    steps: int = 1500,
    learning_rate: float = 0.1,
    particles: int = 4,
    lambda_2: float = 1.0,
    policy_price: float = 1e-6,
) -> Variational:
    """The engine that maximizes the paper's objective by stochastic variational inference.

    Parameters
    ----------
    rewards
        From `bayesdice_ppl.models.pair_prior`, the one that completes the log.
    starts
        Policies to start from besides the uniform one, at least 0.
    steps, learning_rate, particles
        Of Adam.
    lambda_2, policy_price
        As for `bayesdice_ppl.models.optimistic`.

    Raises
    ------
    SettingsError
        A number is out of its range.
    """
    return Variational(
        rewards,
        checks.whole("variational: starts", starts, 0),
        checks.whole("variational: steps", steps),
        checks.positive("variational: learning_rate", learning_rate),
        checks.whole("variational: particles", particles),
        checks.positive("variational: lambda_2", lambda_2),
        checks.positive("variational: policy_price", policy_price),
    )
