"""The network of a clone, and its training: all folds and the whole log in one compiled loop.

The network adds to the linear clone of its fold and starts at zero, so a linear policy needs none
of it. It has two hidden layers and a linear skip. Training stops where the held-out likelihood, the
mean over all folds, no longer grows; the network of the whole log stops with them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray
from scipy.special import ndtri

from bayesdice_ppl.keys import seed_sequence
from bayesdice_ppl.policies.cloning.settings import Clone
from bayesdice_ppl.policies.cloning.split import Folds

EVERY = 50
"""Steps between two looks at the held-out likelihood."""

PATIENCE = 5
"""Looks without a better one after which training stops."""

MEMORY = 0.98
"""Of the running mean of the weights, which is what is judged and kept."""

DECAY = 1e-3
"""AdamW's weight decay: towards the linear clone."""


@final
class CloneNetwork(eqx.Module):
    """Weights and biases: p inputs, two layers of h units, k outputs."""

    skip: Float[Any, "p k"]
    first: Float[Any, "p h"]
    second: Float[Any, "h h"]
    last: Float[Any, "h k"]
    biases: tuple[Float[Any, " h"], Float[Any, " h"], Float[Any, " k"]]

    @classmethod
    def initial(
        cls, draw: np.random.Generator, n_inputs: int, width: int, start: Float[np.ndarray, " k"]
    ) -> CloneNetwork:
        """Draw the hidden layers by He's rule; the outputs are ``start`` in every state."""
        k = len(start)
        return cls(
            skip=np.zeros((n_inputs, k)),
            first=draw.normal(size=(n_inputs, width)) * np.sqrt(2.0 / n_inputs),
            second=draw.normal(size=(width, width)) * np.sqrt(2.0 / width),
            last=np.zeros((width, k)),
            biases=(np.zeros(width), np.zeros(width), start),
        )

    def __call__(self, x: Float[Any, "b p"], xp: Any = jnp) -> Float[Any, "b k"]:
        """Outputs; ``xp`` is the array module, NumPy or JAX's."""
        one, two, three = self.biases
        hidden = xp.maximum(xp.maximum(x @ self.first + one, 0.0) @ self.second + two, 0.0)
        return three + x @ self.skip + hidden @ self.last


class Head(Protocol):
    """What the outputs of a network mean. Hashable."""

    def log_prob(self, outputs: Any, target: Any) -> Any:
        """Log probability of targets, shape (b,), in JAX."""
        ...

    def start(self, draw: np.random.Generator) -> Float[np.ndarray, " k"]:
        """The first outputs, shape (k,), which change nothing or break a symmetry."""
        ...


@final
class SoftmaxHead(NamedTuple):
    """Scores of A labels. A target is the linear clone's scores and, last, the label's code."""

    n_actions: int

    def log_prob(self, outputs: Float[Array, "b A"], target: Float[Array, "b A+1"]) -> Any:
        """Log probability of labels."""
        each = jax.nn.log_softmax(outputs + target[:, :-1], axis=1)
        code = target[:, -1:].astype(jnp.int32)
        return jnp.take_along_axis(each, code, axis=1)[:, 0]

    def start(self, draw: np.random.Generator) -> Float[np.ndarray, " A"]:
        """Zeros."""
        return np.zeros(self.n_actions)


FLOOR = 1e-3
"""Least standard deviation, in those of the linear clone: densities stay finite."""


@final
class GaussianHead(NamedTuple):
    """M Gaussians over q numbers: weights, means, log standard deviations, in that order.

    A target is what the linear clone leaves of an action, in its standard deviations.
    """

    components: int
    width: int

    def log_prob(self, outputs: Float[Array, "b k"], target: Float[Array, "b q"]) -> Any:
        """Log density of what is left of actions."""
        log_weight, mean, sd = self.parts(outputs, jnp)
        z = (target[:, None, :] - mean) / sd
        each = -0.5 * jnp.sum(z**2 + np.log(2.0 * np.pi), axis=-1) - jnp.sum(jnp.log(sd), axis=-1)
        return jax.nn.logsumexp(log_weight + each, axis=-1)

    def parts(self, outputs: Float[Any, "b k"], xp: Any) -> tuple[Any, Any, Any]:
        """Log weights (b, M), means and standard deviations (b, M, q)."""
        m, q = self.components, self.width
        score, mean, raw = outputs[:, :m], outputs[:, m : m + m * q], outputs[:, m + m * q :]
        largest = xp.max(score, axis=1, keepdims=True)
        total = xp.log(xp.sum(xp.exp(score - largest), axis=1, keepdims=True)) + largest
        shape = (-1, m, q)
        return score - total, mean.reshape(shape), FLOOR + xp.exp(raw).reshape(shape)

    def start(self, draw: np.random.Generator) -> Float[np.ndarray, " k"]:
        """One Gaussian as the linear clone has it; several side by side, in a random order."""
        m, q = self.components, self.width
        if m == 1:
            return np.zeros(1 + 2 * q)
        places = ndtri((np.arange(m) + 0.5) / m)
        means = np.stack([draw.permutation(places) for _ in range(q)], axis=1)
        return np.concatenate([np.zeros(m), means.ravel(), np.full(m * q, np.log(0.7))])


@final
class TrainingRows(NamedTuple):
    """What the loop reads, padded to few different lengths; the last of K + 1 sets is the log.

    Attributes
    ----------
    x
        Standardized states, shape (n', p).
    target
        Of each set, for a `Head`, shape (K + 1, n', t).
    batches
        Rows of each step's batch, of each set, shape (looks, steps a look, K + 1, b).
    held
        Rows held out from each of the first K sets, shape (K, h).
    n_held
        How many count, shape (K,).
    """

    x: Float[Any, "n p"]
    target: Float[Any, "K1 n t"]
    batches: Int[Any, "looks every K1 b"]
    held: Int[Any, "K h"]
    n_held: Int[Any, " K"]


@final
class TrainedNetworks(NamedTuple):
    """What the loop ends with.

    Attributes
    ----------
    whole
        The network of the whole log.
    in_sample
        Its outputs, shape (n, k).
    held_out
        Outputs for each row of the network that has not seen its fold, shape (n, k).
    steps
        Steps after which the held-out likelihood was best.
    """

    whole: CloneNetwork
    in_sample: Float[np.ndarray, "n k"]
    held_out: Float[np.ndarray, "n k"]
    steps: int


def train_networks(
    x: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "K1 n t"],
    folds: Folds,
    head: Head,
    settings: Clone,
    rng_key: PRNGKeyArray,
) -> TrainedNetworks:
    """Train a network for each fold and one for the whole log.

    Parameters
    ----------
    x
        Standardized states.
    target
        What is to be learned, for each fold and, last, the whole log.
    folds
        Which rows are held out.
    head
        What outputs mean.
    settings
        Width, steps, batch and learning rate.
    rng_key
        A JAX key for the first weights and the batches.
    """
    draw = np.random.default_rng(seed_sequence(rng_key))
    start = head.start(draw)
    sets = folds.n_folds + 1
    each = [CloneNetwork.initial(draw, x.shape[1], settings.width, start) for _ in range(sets)]
    networks = jax.tree.map(lambda *parts: np.stack(parts).astype(np.float32), *each)
    rows = _padded_rows(x, target, folds, settings, draw)
    networks, in_sample, held, looks = _train(
        rows, networks, head=head, learning_rate=settings.learning_rate
    )
    held_out = np.zeros((len(x), in_sample.shape[1]))
    for fold, (which, count) in enumerate(zip(rows.held, rows.n_held, strict=True)):
        held_out[which[:count]] = np.asarray(held, dtype=np.float64)[fold, :count]
    whole = jax.tree.map(lambda a: np.asarray(a, dtype=np.float64)[-1], networks)
    return TrainedNetworks(
        whole, np.asarray(in_sample, dtype=np.float64)[: len(x)], held_out, int(looks) * EVERY
    )


def _padded_rows(
    x: Float[np.ndarray, "n p"],
    target: Float[np.ndarray, "K1 n t"],
    folds: Folds,
    settings: Clone,
    draw: np.random.Generator,
) -> TrainingRows:
    n, size = len(x), _padded(len(x))
    sets = [np.flatnonzero(folds.of_row != fold) for fold in range(folds.n_folds)] + [np.arange(n)]
    held = [np.flatnonzero(folds.of_row == fold) for fold in range(folds.n_folds)]
    most = _padded(max(map(len, held)))
    shape = max(settings.steps // EVERY, 1), EVERY, settings.batch
    # Drawn here: a generator inside the compiled loop takes seconds to compile.
    batches = np.stack([each[draw.integers(len(each), size=shape)] for each in sets], axis=2)
    return TrainingRows(
        x=np.pad(x, ((0, size - n), (0, 0))).astype(np.float32),
        target=np.pad(target, ((0, 0), (0, size - n), (0, 0))).astype(np.float32),
        batches=batches.astype(np.int32),
        held=np.stack([np.pad(each, (0, most - len(each))) for each in held]).astype(np.int32),
        n_held=np.array([len(each) for each in held], dtype=np.int32),
    )


@partial(jax.jit, static_argnames=("head", "learning_rate"))
def _train(
    rows: TrainingRows, networks: CloneNetwork, *, head: Head, learning_rate: float
) -> tuple[CloneNetwork, Array, Array, Array]:
    """Run the loop: networks, their outputs in and out of sample, and the best look."""
    optimizer = optax.adamw(learning_rate, weight_decay=DECAY)
    # One vector for each network: an optimizer of few arrays compiles in a fraction of the time.
    _, unravel = ravel_pytree(jax.tree.map(lambda a: a[0], networks))
    first = jax.vmap(lambda network: ravel_pytree(network)[0])(networks)
    real = jnp.arange(rows.held.shape[1]) < rows.n_held[:, None]
    held_x = rows.x[rows.held]
    held_target = jax.vmap(lambda every, which: every[which])(rows.target[:-1], rows.held)

    def outputs(weights: Array, x: Array) -> Array:
        result: Array = unravel(weights)(x)
        return result

    def score(weights: Array) -> Array:
        found = jax.vmap(outputs)(weights[:-1], held_x)
        each = jax.vmap(head.log_prob)(found, held_target)
        return jnp.sum(jnp.where(real, each, 0.0)) / jnp.sum(rows.n_held)

    def loss(weights: Array, batch: Array) -> Array:
        def one(weights: Array, which: Array, target: Array) -> Array:
            return -jnp.mean(head.log_prob(outputs(weights, rows.x[which]), target[which]))

        return jnp.sum(jax.vmap(one)(weights, batch, rows.target))

    def step(carry: Any, batch: Array) -> tuple[Any, None]:
        weights, state, mean = carry
        updates, state = optimizer.update(jax.grad(loss)(weights, batch), state, weights)
        weights = weights + updates
        return (weights, state, MEMORY * mean + (1.0 - MEMORY) * weights), None

    def go_on(carry: Any, batches: Array) -> Any:
        training, best, best_score, best_look, look = carry
        training, _ = jax.lax.scan(step, training, batches)
        found = score(training[2])
        better = found > best_score
        return (
            training,
            jnp.where(better, training[2], best),
            jnp.where(better, found, best_score),
            jnp.where(better, look + 1, best_look),
            look + 1,
        )

    def look_again(carry: Any, batches: Array) -> tuple[Any, None]:
        waited = carry[4] - carry[3]
        return jax.lax.cond(waited >= PATIENCE, lambda c, _: c, go_on, carry, batches), None

    none = jnp.zeros((), jnp.int32)
    carry = ((first, optimizer.init(first), first), first, score(first), none, none)
    (_, best, _, best_look, _), _ = jax.lax.scan(look_again, carry, rows.batches)
    held_outputs = jax.vmap(outputs)(best[:-1], held_x)
    return jax.vmap(unravel)(best), outputs(best[-1], rows.x), held_outputs, best_look


def _padded(size: int) -> int:
    """The next of few lengths, at most an eighth more."""
    step = max(2 ** (size.bit_length() - 4), 1)
    return size + -size % step
