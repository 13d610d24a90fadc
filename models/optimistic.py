"""The optimistic model: ratio and policy are both unknown, and what may be best is looked for.

The ratio of an occupancy is zeta times pi, over all pairs of states and actions. The program has a
site for the logits of pi, one for the flow of its states, and one for the value; the chance
constraint is on the Bellman flow of states. A second factor, `optimism`, pulls q to policies that
may be good. `docs/exploration.md` has the derivation, and the closed form for a fixed policy.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions import constraints
from numpyro.handlers import scale as scaled

from bayesdice_ppl import checks
from bayesdice_ppl.arrays import cholesky, library_of, solve_lower
from bayesdice_ppl.constraint import ChanceConstraint, Surrogate, surrogates
from bayesdice_ppl.constraint.penalties import Mahalanobis
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.models.coordinates import Coordinates
from bayesdice_ppl.models.feature_beliefs import FeatureBeliefs
from bayesdice_ppl.models.gradients import StopScore, reverse_gradient
from bayesdice_ppl.models.optimism import Optimism, quantile
from bayesdice_ppl.models.pair_beliefs import (
    PairBeliefs,
    PairCounts,
    PairPrior,
    pair_beliefs,
)
from bayesdice_ppl.models.ratio import FirstEstimate, less_value
from bayesdice_ppl.moments import VALUE_ROW, Cells, Moments, Prior

_RIDGE, _FLOOR = 1e-10, 1e-14
"""Shares of the diagonal of the flow's noise, and of one, that make it invertible."""
_START_SCALE = 1.0
"""Spread of q(pi) at the start, in logits."""


class FlowBeliefs(Protocol):
    """A completed log: that of pairs (`PairBeliefs`), or one through features (`FeatureBeliefs`).

    A policy is an array of probabilities, shape (P, A), P the number of states, or of points at
    which the flow is balanced. The occupancy of states has C weights, one a test of the flow.
    """

    @property
    def logit_shape(self) -> tuple[int, int]:
        """Shape (K, A) of the logits of a policy."""
        ...

    @property
    def size(self) -> Float[Any, ""]:
        """Steps of the completed log."""
        ...

    @property
    def share(self) -> Float[Any, "P A"]:
        """The occupancy of which the ratio is 1."""
        ...

    def probabilities(self, logits: Float[Any, "*b K A"]) -> Float[Any, "*b P A"]:
        """The policy of logits."""
        ...

    def flow_parts(self, policy: Float[Any, "P A"]) -> tuple[Float[Any, "C C"], Float[Any, " C"]]:
        """Mean moves and rewards under a policy."""
        ...

    def noise(
        self, policy: Float[Any, "P A"], states: Float[Any, " C"], gamma: float
    ) -> Float[Any, "R R"]:
        """Covariance of the residual of flow and value, without that of the starts."""
        ...

    def start_noise(self, gamma: float) -> Float[Any, "C C"]:
        """Covariance of the flow that starts."""
        ...

    def occupancy(self, states: Float[Any, " C"], policy: Float[Any, "P A"]) -> Float[Any, "P A"]:
        """The occupancy of states times the policy."""
        ...


class Flow(NamedTuple):
    """The flow of one policy: everything but its noise is determined by the policy.

    With u of C + 1 standard normal numbers, (states, value) = center + factor u is the posterior.
    C is the number of states, or of tests of them.

    Attributes
    ----------
    center
        Occupancy of the states and the value, shape (C + 1,).
    factor
        Root of their covariance, shape (C + 1, C + 1).
    noise
        Covariance of the residual of the flow and the value, Sigma / N, shape (C + 1, C + 1).
    """

    center: Float[Any, " R"]
    factor: Float[Any, "R R"]
    noise: Float[Any, "R R"]

    @property
    def sd(self) -> Float[Any, ""]:
        """Standard deviation of the value."""
        xp = library_of(self.factor)
        return xp.sqrt((self.factor[VALUE_ROW] ** 2).sum())


@final
class OptimisticRatio(eqx.Module):
    """Ratio and policy on one log, completed by the prior.

    Latent numbers: K A logits of the policy, and C numbers of the flow, which are the occupancy of
    the states in units of its noise. On tables K and C are the number of states. Through features K
    is their number, and the flow is balanced for C tests of the state.

    Attributes
    ----------
    moments
        Residual of flow and value, shape (C + 1,), by the ratio of all P A pairs.
    beliefs
        The completed log.
    logits
        Where q(pi) starts, shape (K, A).
    steps
        Size of the log, scalar.
    settings, prior
        What was asked for, and the widths of the priors.
    """

    moments: Moments
    beliefs: FlowBeliefs
    logits: Float[Any, "K A"]
    steps: Float[Any, ""]
    settings: OptimisticModel = eqx.field(static=True)
    prior: Prior = eqx.field(static=True)

    @property
    def n_tests(self) -> int:
        """Number of tests of the flow, C."""
        return len(self.moments.offset) - 1

    @property
    def refreshes(self) -> int:
        """Sigma follows the policy, and is never evaluated anew."""
        return 0

    def latent_prior(self) -> dist.Distribution:
        """Normals around the uniform policy and its own flow.

        The flow has a prior in units of its noise, so that every policy is equally credible.
        """
        ones = jnp.ones(self.n_tests, self.logits.dtype)
        logits = jnp.ones(self.logits.size, self.logits.dtype) * self.settings.policy_sd
        return dist.Normal(0.0, jnp.append(logits, ones * self.prior.ratio_sd)).to_event(1)

    def value_prior(self) -> dist.Distribution:
        """A normal around the value of the policy at which q(pi) starts, in units of its noise."""
        flow = self.flow(self.policy(self.logits.ravel()))
        return dist.Normal(flow.center[VALUE_ROW], self.prior.value_sd * flow.sd)

    def policy(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b P A"]:
        """Probabilities of the policy."""
        logits = latent[..., : self.logits.size]
        return self.beliefs.probabilities(
            logits.reshape(*logits.shape[:-1], *self.beliefs.logit_shape)
        )

    def flow(self, policy: Float[Any, "P A"]) -> Flow:
        """The flow of a policy in closed form."""
        beliefs, gamma = self.beliefs, self.settings.gamma
        xp = library_of(policy, self.moments.offset)
        moves, reward = beliefs.flow_parts(policy)
        n_tests = len(reward)
        # How (states, value) move the residual.
        top = xp.concatenate([gamma * moves.T - xp.eye(n_tests), xp.zeros((n_tests, 1))], axis=1)
        matrix = xp.concatenate([top, xp.append(reward, -1.0)[None]], axis=0)
        center = xp.linalg.solve(matrix, -self.moments.offset)
        noise = beliefs.noise(policy, center[:-1], gamma)
        noise = noise + xp.pad(beliefs.start_noise(gamma), (0, 1))
        noise = noise + xp.diag(_RIDGE * xp.diagonal(noise) + _FLOOR)
        return Flow(center, xp.linalg.solve(matrix, cholesky(noise)), noise)

    def by_pair(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b P"]:
        """The ratio zeta pi of all P A pairs to the completed log."""
        if latent.ndim > 1:
            found: Any = jax.vmap(self.by_pair)(latent)
            return found
        policy = self.policy(latent)
        return self._ratio(policy, self.flow(policy), latent[-self.n_tests :])

    def _ratio(
        self, policy: Float[Any, "P A"], flow: Flow, y: Float[Any, " C"]
    ) -> Float[Any, " P"]:
        states = flow.center[:-1] + flow.factor[:-1, :-1] @ y
        return (self.beliefs.occupancy(states, policy) / self.beliefs.share).ravel()

    def residual(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b R"]:
        """Residual of the flow and of a value of zero."""
        return self.moments.residual(self.by_pair(latent))

    def recorded(self, latent: Float[Any, "*b L"]) -> Float[Any, "*b P"]:
        """The ratio of all pairs."""
        return self.by_pair(latent)

    def estimate(
        self, noise: Float[Any, "R R"], start: Float[Any, " L"] | None = None
    ) -> FirstEstimate:
        """The policy at which q(pi) starts, with its own flow; Sigma follows from the policy."""
        latent = (
            jnp.append(self.logits.ravel(), jnp.zeros(self.n_tests))
            if start is None
            else start[:-1]
        )
        policy = self.policy(latent)
        flow = self.flow(policy)
        value = flow.center[VALUE_ROW]
        row = solve_lower(cholesky(flow.noise), flow.factor[VALUE_ROW], transposed=True)
        by_pair = self._ratio(policy, flow, latent[-self.n_tests :])
        return FirstEstimate(by_pair, value, row / row[VALUE_ROW], jnp.append(latent, value))

    def coordinates(
        self, noise: Float[Any, "R R"], rows: Float[Any, " R"], *, value_constraint: bool
    ) -> Coordinates:
        """The latent numbers as they are, and the value in units of its noise."""
        found = self.estimate(noise)
        sd = self.flow(self.policy(found.latent[:-1])).sd
        scale = jnp.append(jnp.ones(len(found.latent) - 1), sd)
        size = None if value_constraint else -1
        return Coordinates(found.latent[:size], jnp.diag(scale[:size]))

    def model(
        self,
        constraint: ChanceConstraint,
        *,
        inner: str = "guide",
        surrogate: Surrogate = surrogates.markov(),  # noqa: B008  an immutable NamedTuple
        level: float | Float[Array, ""] | None = None,
        **_: object,
    ) -> None:
        """Prior, chance constraint and optimism, in units of lambda_2.

        Parameters
        ----------
        constraint
            Price and epsilon. The penalty is Mahalanobis', measured at the policy that is drawn.
        inner
            ``"guide"``: the multipliers are the site ``beta``. ``"exact"``: the factor holds the
            maximum over them.
        surrogate
            Bound that replaces P(ell > epsilon); one with a level of its own has to be given it.
        level
            The surrogate's level.
        **_
            Other settings of the guide, which the model ignores.
        """
        asked, n_tests = self.settings, self.n_tests
        with scaled(scale=asked.policy_price / asked.lambda_2):
            logits = numpyro.sample(
                "policy",
                dist.Normal(jnp.zeros(self.logits.size), asked.policy_sd).to_event(1),
            )
        policy = self.policy(logits)
        flow = self.flow(policy)
        y = numpyro.sample("flow", dist.Normal(jnp.zeros(n_tests), self.prior.ratio_sd).to_event(1))
        # The value's prior is in units of its noise too: no policy is preferred for its noise.
        middle = flow.center[VALUE_ROW] + flow.factor[VALUE_ROW, :-1] @ y
        own = jnp.abs(flow.factor[VALUE_ROW, VALUE_ROW])
        value = numpyro.sample("value", dist.Normal(middle, self.prior.value_sd * own))
        ratio = numpyro.deterministic("ratio", self._ratio(policy, flow, y))
        residual = less_value(self.moments.residual(ratio), value)
        rows = jnp.ones_like(residual)
        penalty = Mahalanobis.of(flow.noise * self.beliefs.size, rows)
        if inner == "guide":
            # Beta has no prior and no entropy: it is the point of an inner maximization.
            beta = numpyro.sample(
                "beta", dist.Normal(jnp.zeros_like(residual), 1.0).to_event(1).mask(False)
            )
            loss = beta @ residual - penalty.conjugate(beta)
        else:
            loss = penalty.value(residual)
        numpyro.deterministic("loss", loss)
        at = jnp.asarray(surrogate.start if level is None else level, loss.dtype)
        cost = surrogate.cost(loss / constraint.epsilon, at)
        numpyro.factor("chance_constraint", -constraint.price * constraint.epsilon * cost)
        # A variance is a minimum over centers, an sd one over spreads: both descend while q climbs.
        center = numpyro.param("center", jnp.zeros((), loss.dtype))
        spread = numpyro.param("spread", jnp.ones((), loss.dtype), constraint=constraints.positive)
        score = asked.optimism.of_draw(
            value,
            flow.center[VALUE_ROW] + flow.sd * reverse_gradient(center),
            flow.sd * reverse_gradient(spread),
            self.steps,
        )
        numpyro.factor("optimism", score / asked.lambda_2)

    def guide(self, constraint: ChanceConstraint, *, inner: str = "guide", **_: object) -> None:
        """q(pi), Gaussian logits, and for a given pi a Gaussian of flow and value.

        Parameters
        ----------
        constraint, inner
            As for `model`.
        **_
            Other settings of the model, which the guide ignores.
        """
        size, dtype = self.n_tests + 1, self.logits.dtype
        asked = self.settings
        loc = numpyro.param("policy_loc", self.logits.ravel())
        width = numpyro.param(
            "policy_scale",
            jnp.full(loc.shape, _START_SCALE, dtype),
            constraint=constraints.positive,
        )
        with scaled(scale=asked.policy_price / asked.lambda_2):
            logits = numpyro.sample("policy", dist.Normal(loc, width).to_event(1))
        mean = numpyro.param("flow_loc", jnp.zeros(size, dtype))
        tril = numpyro.param(
            "flow_tril", jnp.eye(size, dtype=dtype), constraint=constraints.lower_cholesky
        )
        law = dist.MultivariateNormal(mean, scale_tril=tril, validate_args=False)
        u = numpyro.sample("coordinates", StopScore(law), infer={"is_auxiliary": True})
        flow = self.flow(self.policy(logits))
        numpyro.sample("flow", dist.Delta(u[:-1], event_dim=1))
        value = flow.center[VALUE_ROW] + flow.factor[VALUE_ROW] @ u
        volume = -jnp.log(jnp.abs(flow.factor[VALUE_ROW, VALUE_ROW]))
        numpyro.sample("value", dist.Delta(value, log_density=volume))
        if inner == "guide":
            slope = numpyro.param("beta_slope", jnp.zeros((size, size), dtype))
            first = numpyro.param("beta_level", jnp.zeros(size, dtype))
            whitened = reverse_gradient(slope) @ u + reverse_gradient(first)
            # The residual is u in units of its noise, so that the best slope is the identity.
            root = cholesky(flow.noise)
            beta = solve_lower(root, whitened, transposed=True) / constraint.price
            numpyro.sample("beta", dist.Delta(beta, event_dim=1).mask(False))


@final
class OptimisticModel(NamedTuple):
    """The optimistic model as it is asked for (hashable); make one with `optimistic`.

    Attributes
    ----------
    n_states, n_actions
        Sizes.
    gamma
        Discount.
    rewards
        Prior of the pairs.
    optimism
        U.
    lambda_2
        Price of the distance to the prior of flow and value, reward per step.
    policy_price
        Price of the distance to the prior of the policy, reward per step.
    policy_sd
        Prior sd of the policy's logits.
    """

    n_states: int
    n_actions: int
    gamma: float
    rewards: PairPrior
    optimism: Optimism
    lambda_2: float = 1.0
    policy_price: float = 1e-6
    policy_sd: float = 10.0

    @property
    def linear(self) -> bool:
        """The policy is unknown, so that the ratio is no linear function."""
        return False

    def record(self, *, tabular: bool) -> tuple[str, str]:
        """The ratio of all pairs."""
        return "ratio", "pair"

    def build(self, cells: Cells, moments: Moments, prior: Prior) -> OptimisticRatio:
        """Build ratio and policy on one log.

        Parameters
        ----------
        cells
            The log.
        moments
            Moments of flow and value, S + 1 rows.
        prior
            Widths of the priors.

        Raises
        ------
        SettingsError
            The moments are those of a candidate: this model has no candidates.
        """
        n_rows = moments.offset.shape[0]
        if n_rows != self.n_states + 1:
            raise SettingsError(
                f"model {self}: expected the flow of {self.n_states} states and a value, "
                f"{self.n_states + 1} rows, found {n_rows}, those of a candidate. It chooses among "
                "all policies: use bayesdice_ppl.exploration."
            )
        return self.of_counts(counts_of(cells, self.n_states, self.n_actions), prior)

    def of_counts(
        self,
        counts: PairCounts,
        prior: Prior = Prior(),  # noqa: B008  immutable
        logits: Float[Any, "S A"] | None = None,
    ) -> OptimisticRatio:
        """The same from a log that is counted already.

        Parameters
        ----------
        counts
            The log.
        prior
            Widths of the priors.
        logits
            Where q(pi) starts, shape (S, A); by default the uniform policy.
        """
        beliefs = pair_beliefs(counts, self.rewards)
        moments = flow_moments(beliefs, self.gamma, self.rewards)
        return self._ratio(beliefs, moments, counts.visits.sum(), prior, logits)

    def of_features(
        self,
        beliefs: FeatureBeliefs,
        prior: Prior = Prior(),  # noqa: B008  immutable
        logits: Float[Any, "K A"] | None = None,
    ) -> OptimisticRatio:
        """The same for states that are vectors, through features of them.

        Parameters
        ----------
        beliefs
            The completed log.
        prior
            Widths of the priors.
        logits
            Where q(pi) starts, shape (K, A): linear in the K features. By default the uniform
            policy.
        """
        xp = library_of(beliefs.tests)
        steps = xp.asarray(beliefs.steps)
        return self._ratio(beliefs, beliefs.moments(self.gamma), steps, prior, logits)

    def _ratio(
        self,
        beliefs: FlowBeliefs,
        moments: Moments,
        steps: Float[Any, ""],
        prior: Prior,
        logits: Float[Any, "K A"] | None,
    ) -> OptimisticRatio:
        xp = library_of(moments.offset)
        start = xp.zeros(beliefs.logit_shape) if logits is None else logits
        return OptimisticRatio(moments, beliefs, start, steps, self, prior)

    def __str__(self) -> str:
        return f"optimistic({self.optimism})"


def optimistic(
    n_states: int,
    n_actions: int,
    *,
    gamma: float,
    rewards: PairPrior,
    optimism: Optimism = quantile(),  # noqa: B008  an immutable NamedTuple
    lambda_2: float = 1.0,
    policy_price: float = 1e-6,
    policy_sd: float = 10.0,
) -> OptimisticModel:
    """The optimistic model.

    Parameters
    ----------
    n_states, n_actions
        Numbers of states and actions, at least 1.
    gamma
        Discount in [0, 1).
    rewards
        From `pair_prior`: the range of the rewards, and the weight of the prior.
    optimism
        `bayesdice_ppl.models.quantile` or `bayesdice_ppl.models.variance`.
    lambda_2
        Price of the distance of q(zeta) to its prior, in reward per step. q leans to the good side
        by the variance over it.
    policy_price, policy_sd
        Price of the distance of q(pi) to its prior, in reward per step, and the prior's sd of
        logits around the uniform policy.

    Raises
    ------
    SettingsError
        A number is out of its range.
    """
    if checks.discount(gamma) == 1.0:
        raise SettingsError("gamma: expected a discount in [0, 1) to explore, found 1.")
    return OptimisticModel(
        checks.whole("optimistic: n_states", n_states),
        checks.whole("optimistic: n_actions", n_actions),
        float(gamma),
        rewards,
        optimism,
        checks.positive("optimistic: lambda_2", lambda_2),
        checks.positive("optimistic: policy_price", policy_price),
        checks.positive("optimistic: policy_sd", policy_sd),
    )


def counts_of(cells: Cells, n_states: int, n_actions: int) -> PairCounts:
    """Counts of all pairs from the cells of a log; a termination is followed by a fresh start."""
    xp = library_of(cells.count)
    state, action = cells.pair_state[cells.pair], cells.pair_action[cells.pair]
    onward = 1.0 - cells.terminated
    starts = _scattered(
        (n_states,), (cells.initial_state,), cells.initial_weight * cells.n_episodes, xp
    )
    begin = starts / xp.maximum(starts.sum(), 1.0)

    def table(sums: Float[Any, " C"]) -> Float[Any, "S A S"]:
        here = _scattered(
            (n_states, n_actions, n_states), (state, action, cells.successor), sums * onward, xp
        )
        ended = _scattered((n_states, n_actions), (state, action), sums * cells.terminated, xp)
        return here + ended[..., None] * begin

    return PairCounts(
        table(cells.count), table(cells.reward_sum), table(cells.reward_square_sum), starts
    )


def _scattered(shape: tuple[int, ...], at: tuple[Any, ...], sums: Any, xp: Any) -> Any:
    found = xp.zeros(shape, sums.dtype)
    if xp is jnp:
        return found.at[at].add(sums)
    xp.add.at(found, at, sums)
    return found


def flow_moments(beliefs: PairBeliefs, gamma: float, rewards: PairPrior) -> Moments:
    """Moments of flow and value over all pairs of the completed log; no policy enters.

    Parameters
    ----------
    beliefs
        The completed log.
    gamma
        Discount.
    rewards
        Its prior.
    """
    xp = library_of(beliefs.moves)
    n_states, n_actions = beliefs.reward.shape
    here = xp.repeat(xp.eye(n_states), n_actions, axis=0).reshape(n_states, n_actions, n_states)
    rows = xp.concatenate([gamma * beliefs.moves - here, beliefs.reward[..., None]], axis=-1)
    by_ratio = (beliefs.share[..., None] * rows).reshape(-1, n_states + 1).T
    offset = xp.append((1.0 - gamma) * beliefs.start, 0.0)
    mean = (beliefs.share * beliefs.reward).sum()
    return Moments(
        by_ratio=by_ratio,
        offset=offset,
        # The noise of the residual is that of the pairs' posteriors, and not of rows.
        design=xp.zeros((0, n_states + 1)),
        initial=xp.zeros((0, n_states + 1)),
        active=xp.ones(n_states * n_actions),
        reward_mean=mean,
        reward_scale=xp.sqrt(xp.asarray(rewards.variance)),
    )
