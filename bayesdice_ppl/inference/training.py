"""The compiled steps of min-max training: its program, its optimizer, its mini-batches.

All candidates and all restarts are one compiled call. Beside them each candidate has a scout, which
trains on a part of the log and never sees the rest; the constraint's loss there tells when to stop.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayesdice_ppl.constraint import ChanceConstraint
from bayesdice_ppl.inference.problem import QUICK, Problem
from bayesdice_ppl.models import MeanDeviationRatio
from bayesdice_ppl.models.networks import Networks
from bayesdice_ppl.moments import VALUE_ROW

_NETWORKS, _VALUE, _MULTIPLIERS = "networks", "value", "multipliers"
_GROUPS = {
    "mean$params": _NETWORKS,
    "deviation$params": _NETWORKS,
    "value_loc": _VALUE,
    "value_log_scale": _VALUE,
    "beta_level": _MULTIPLIERS,
    "beta_slope": _MULTIPLIERS,
}
"""Parameters of the program, by the rule that moves them."""
_VALUE_RATE = 10.0
"""Rate of the value's parameters, which are few, over that of the networks' weights."""
_LAST_ASCENT = 0.1
"""Share of the multipliers' rate that is left at the end."""
_SECOND_MOMENT = 0.99
WIDENING, FLOORS = 1e-2, (-10.0, -2.0)
"""Most that Sigma's small eigenvalues may add to the value's variance when they are raised, and
powers of ten, as eigenvalues of its correlations, to which they are."""


class TrainingPlan(NamedTuple):
    """What the compiled functions depend on (hashable).

    Attributes
    ----------
    steps, draws, learning_rate, ascent_rate, weight_decay, clip
        As for `bayesdice_ppl.inference.MinMax`.
    batch
        Pairs in a mini-batch; None: all of them.
    value_constraint
        As for `bayesdice_ppl.models.model`.
    """

    steps: int
    draws: int
    learning_rate: float
    ascent_rate: float
    weight_decay: float
    clip: float
    batch: int | None
    value_constraint: bool


class Task(NamedTuple):
    """What is trained: N candidates in T lanes, a lane for each restart and perhaps a scout's.

    Attributes
    ----------
    ratio, constraint
        Of each candidate, stacked; the constraint in single precision. With scouts the ratio's rows
        on their part of the log follow those on the whole.
    first_rows
        Where the rows of each lane begin, shape (T,).
    unseen
        Rows on what scouts do not see, shape (N, P, R); None: there are no scouts.
    """

    ratio: MeanDeviationRatio
    constraint: ChanceConstraint
    first_rows: Int[Array, " T"]
    unseen: Float[Array, "N P R"] | None = None


class Given(NamedTuple):
    """Random numbers of a step; of several steps with a leading axis.

    Attributes
    ----------
    pairs
        The mini-batch, shape (B,); None: all pairs.
    half_noise
        The noise of half of the draws, shape (S / 2, k + 1), in `advance` for each lane.
    """

    pairs: Int[Any, " B"] | None
    half_noise: Float[Any, "*T h k"]


def optimizer(plan: TrainingPlan) -> Any:
    """AdamW on the networks, Adam on the value, plain steps of the multipliers; rates fall."""
    import optax
    from numpyro.optim import optax_to_numpyro

    def falling(rate: float, last: float = 0.0) -> Any:
        return optax.cosine_decay_schedule(rate, plan.steps, last)

    rules = {
        _NETWORKS: optax.chain(
            optax.clip_by_global_norm(plan.clip),
            optax.adamw(
                falling(plan.learning_rate), b2=_SECOND_MOMENT, weight_decay=plan.weight_decay
            ),
        ),
        _VALUE: optax.adam(falling(_VALUE_RATE * plan.learning_rate), b2=_SECOND_MOMENT),
        # The objective is curved by one in each multiplier: a step at rate r averages the residuals
        # of the last 1 / r batches.
        _MULTIPLIERS: optax.sgd(falling(plan.ascent_rate, _LAST_ASCENT)),
    }
    return optax_to_numpyro(
        optax.partition(rules, lambda params: {name: _GROUPS[name] for name in params})
    )


@lru_cache(maxsize=32)
def program(plan: TrainingPlan) -> Any:
    """NumPyro's SVI on one candidate: (ratio, constraint, networks, multipliers, given).

    There is one for a plan: at its start it learns how its parameters are bounded, and keeps that.
    """
    from numpyro import handlers
    from numpyro.infer import SVI, Trace_ELBO

    options: dict[str, Any] = {
        "draws": plan.draws,
        "batch": plan.batch,
        "value_constraint": plan.value_constraint,
    }

    # The plate takes the batches of shuffled passes over the log in place of draws of its own, and
    # the noise is drawn beforehand: random numbers in a step take half of its compilation.
    def model(ratio: Any, constraint: Any, networks: Networks, _: Any, given: Given) -> None:
        chosen = {} if given.pairs is None else {"pairs": given.pairs}
        with handlers.substitute(data=chosen):
            ratio.model(constraint, networks=networks, **options)

    def guide(ratio: Any, constraint: Any, _: Any, start: Any, given: Given) -> None:
        with handlers.substitute(data={"half_noise": given.half_noise}):
            ratio.guide(constraint, start=start, **options)

    return SVI(model, guide, optimizer(plan), Trace_ELBO())


@partial(jax.jit, static_argnames="plan", compiler_options=QUICK)
def start(task: Task, rng_key: PRNGKeyArray, plan: TrainingPlan) -> Any:
    """States of all lanes, leading axes (N, T)."""
    svi = program(plan)
    keys = jax.vmap(lambda t: jax.random.fold_in(rng_key, t))(jnp.arange(len(task.first_rows)))
    pairs = None if plan.batch is None else jnp.arange(plan.batch)

    def begin(ratio: MeanDeviationRatio, constraint: ChanceConstraint, key: PRNGKeyArray) -> Any:
        rows = ratio.rows[: ratio.inputs.shape[0]]
        residual = jnp.sum(rows, axis=0) + jnp.asarray(ratio.moments.offset, jnp.float32)
        center = jnp.asarray(ratio.value_prior().loc, jnp.float32)
        residual = residual.at[VALUE_ROW].add(-center)
        metric = constraint.penalty.whitening()
        assert metric is not None  # the penalty is a square
        first = jnp.sqrt(constraint.price) * (metric @ residual)
        given = Given(pairs, jnp.zeros((plan.draws // 2, 1 + ratio.noise), jnp.float32))
        return svi.init(key, ratio, constraint, ratio.networks(key), first, given)

    return jax.vmap(jax.vmap(begin, (None, None, 0)), (0, 0, None))(
        task.ratio, task.constraint, keys
    )


@partial(jax.jit, static_argnames=("plan", "number"), donate_argnames="states")
def advance(
    states: Any, task: Task, given: Given, plan: TrainingPlan, number: int
) -> tuple[Any, Float[Array, "N steps"]]:
    """A number of steps of all lanes.

    Returns
    -------
    (states, Array)
        The new states, and the negative loss of each candidate, averaged over lanes.
    """
    svi = program(plan)

    def step(state: Any, ratio: MeanDeviationRatio, constraint: Any, first: Any, given: Any) -> Any:
        # Parameters are in the state; these only have their shapes.
        shapes = eqx.filter_eval_shape(ratio.networks, jax.random.key(0))
        networks = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        ratio = eqx.tree_at(lambda ratio: ratio.first_row, ratio, first)
        zero = jnp.zeros(ratio.rows.shape[1], jnp.float32)
        return svi.update(state, ratio, constraint, networks, zero, given)

    axes: Any = (None, 0)  # batches are shared, noise is not
    own = Given(*axes)
    lanes = jax.vmap(jax.vmap(step, (0, None, None, 0, own)), (0, 0, 0, None, None))

    def every(states: Any, given: Given) -> tuple[Any, Array]:
        states, loss = lanes(states, task.ratio, task.constraint, task.first_rows, given)
        return states, -jnp.mean(loss, axis=1)

    states, elbo = jax.lax.scan(every, states, given, length=number)
    return states, elbo.T


class Reading(NamedTuple):
    """What is read off between steps.

    Attributes
    ----------
    held_out
        Loss of the constraint at each scout's mean, in nats, on what it has not seen, shape (N,).
    criterion
        J = 2 (lambda / epsilon) ell at the mean of each lane, shape (N, T).
    mass
        Mean ratio over the log, shape (N, T).
    value, spread
        The value's mean and sd in each lane, shape (N, T).
    """

    held_out: Float[Array, " N"]
    criterion: Float[Array, "N T"]
    mass: Float[Array, "N T"]
    value: Float[Array, "N T"]
    spread: Float[Array, "N T"]


def networks_of(params: Any) -> Networks:
    """The networks among a program's parameters."""
    return Networks(params["mean$params"], params["deviation$params"])


@partial(jax.jit, static_argnames="plan", compiler_options=QUICK)
def read(
    states: Any, task: Task, visits: Float[Array, " P"], share: float, plan: TrainingPlan
) -> Reading:
    """Read off how far the training is.

    Parameters
    ----------
    states, task, plan
        As for `advance`.
    visits
        Share of the log's transitions at each pair.
    share
        Share of the log that scouts do not see.
    """
    svi = program(plan)
    n_pairs = visits.shape[0]

    def at_mean(state: Any, ratio: MeanDeviationRatio, constraint: ChanceConstraint) -> Any:
        params = svi.get_params(state)
        linked = ratio.link.ratio(networks_of(params)(ratio.inputs)[0])
        residual = linked @ ratio.rows[:n_pairs] + jnp.asarray(ratio.moments.offset, jnp.float32)
        value, spread = value_of(ratio, params, residual)
        loss = constraint.penalty.value(residual.at[VALUE_ROW].add(-value))
        known = ratio.moments.action_ratio
        weight = visits if known is None else visits * known
        return constraint.price * loss, jnp.sum(weight * linked), value, spread

    each = jax.vmap(jax.vmap(at_mean, (0, None, None)))
    loss, mass, value, spread = each(states, task.ratio, task.constraint)
    held_out = jnp.zeros(loss.shape[0])
    if task.unseen is not None:
        judged = eqx.tree_at(lambda ratio: ratio.rows, task.ratio, task.unseen)
        scouts = jax.tree.map(lambda x: x[:, -1], states)
        held_out = share * jax.vmap(at_mean)(scouts, judged, task.constraint)[0]
    return Reading(held_out, 2.0 * loss, mass, value, spread)


def value_of(
    ratio: MeanDeviationRatio, params: Any, residual: Float[Array, " R"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean and sd of the value; where the ratio implies it, that of the mean ratio, and nothing."""
    if "value_loc" not in params:
        return residual[VALUE_ROW], jnp.zeros((), residual.dtype)
    center = jnp.asarray(ratio.value_prior().loc, residual.dtype)
    return (
        center + params["value_loc"] * ratio.value_unit,
        jnp.exp(params["value_log_scale"]) * ratio.value_unit,
    )


def batches(
    seed: tuple[int, ...], n_pairs: int, batch: int, first: int, number: int
) -> Int[np.ndarray, "steps B"]:
    """Mini-batches of steps ``first`` and on: consecutive parts of shuffled passes over all pairs.

    Parameters
    ----------
    seed
        Numbers that all shuffles follow from.
    n_pairs, batch
        P and B.
    first, number
        The first step, and how many.
    """
    per_pass = n_pairs // batch
    last, order = -1, np.arange(n_pairs)
    found = np.empty((number, batch), dtype=np.int32)
    for i in range(number):
        turn, place = divmod(first + i, per_pass)
        if turn != last:
            order, last = np.random.default_rng([*seed, turn]).permutation(n_pairs), turn
        found[i] = order[place * batch : (place + 1) * batch]
    return found


def noises(
    seed: tuple[int, ...], shape: tuple[int, ...], first: int, number: int
) -> Float[np.ndarray, "steps T h k"]:
    """Standard normal noise of steps ``first`` and on; see `batches`."""
    rng = np.random.default_rng([*seed, first])
    return rng.standard_normal((number, *shape), dtype=np.float32)


def softened(
    covariance: Float[np.ndarray, "R R"],
    slope: Float[np.ndarray, " R"],
    rows: Float[np.ndarray, " R"],
) -> Float[np.ndarray, "R R"]:
    """Sigma with its smallest eigenvalues raised, as far as that hardly widens the value.

    Nearly exact constraints make the objective a thousand times steeper in one direction than in
    others, and steps of first order would bounce in it.

    Parameters
    ----------
    covariance
        Sigma, invertible.
    slope
        How a row of the residual moves the value.
    rows
        1 for the rows that count.
    """
    scale = np.sqrt(np.diagonal(covariance))
    values, vectors = np.linalg.eigh(covariance / scale[:, None] / scale)
    seen = (vectors.T @ (scale * slope * rows)) ** 2
    raised = values
    for floor in 10.0 ** np.linspace(*FLOORS, 29):
        tried = np.maximum(values, floor)
        if (tried - values) @ seen > WIDENING * (values @ seen):
            break
        raised = tried
    whole = (vectors * raised) @ vectors.T * scale[:, None] * scale
    return whole * (rows[:, None] * rows) + np.diag(1.0 - rows)


def held_out_rows(
    problem: Problem, share: float, seed: tuple[int, ...]
) -> tuple[Float[np.ndarray, "N P R"], Float[np.ndarray, "N P R"], float]:
    """Split the rows of every ratio: episodes where cells are kept apart by them, else transitions.

    Parameters
    ----------
    problem
        All candidates' problems.
    share
        Share of the episodes, or of the transitions, for the second part.
    seed
        Numbers that the split follows from.

    Returns
    -------
    (array, array, float)
        Rows of the two parts, and the share of the transitions in the second. Initial states are
        those of the whole log in both.
    """
    cells, ratio = jax.tree.map(np.asarray, (problem.cells, problem.ratio))
    count, episode = cells.count, cells.episode
    rng = np.random.default_rng(list(seed))
    n_episodes = int(episode.max()) + 1
    if n_episodes > 1:
        number = min(max(round(share * n_episodes), 1), n_episodes - 1)
        out = np.zeros(n_episodes)
        out[rng.permutation(n_episodes)[:number]] = 1.0
        part = out[episode]
    else:
        part = rng.binomial(count.astype(int), share) / np.where(count > 0.0, count, 1.0)
    n, design = float(cells.n_transitions), ratio.moments.design
    n_policies, n_pairs, n_rows = ratio.rows.shape
    factor = np.ones((n_policies, n_pairs))
    if ratio.moments.action_ratio is not None:
        factor = factor * ratio.moments.action_ratio
    if cells.basis is None:
        factor = factor * ratio.moments.active
    reward = cells.reward_sum
    if problem.rewards is not None:
        reward = np.asarray(problem.rewards.total)
    reward = np.broadcast_to(reward, (n_policies, len(count)))
    held = float(part @ count) / n
    parts = []
    for weight, size in ((1.0 - part, 1.0 - held), (part, held)):
        rows = np.zeros((n_policies, n_pairs, n_rows))
        for j in range(n_policies):
            terms = design[j] * (count * weight)[:, None]
            terms[:, VALUE_ROW] += reward[j] * weight
            np.add.at(rows[j], cells.pair, terms)
        parts.append((rows * factor[..., None] / (n * size)).astype(np.float32))
    return parts[0], parts[1], held
