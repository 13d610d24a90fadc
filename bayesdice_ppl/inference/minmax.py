"""Min-max training of mean and deviation networks: the paper's own form of inference.

The networks of q(ratio, value) descend on KL + lambda E[ell], and the multipliers q(beta | noise)
climb, each at a rate of its own (Yang et al., eq. 14). A belief is the mixture of networks that
started apart: how far they disagree is a part of its width.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.inference import training
from bayesdice_ppl.inference.checkpoints import Checkpoint
from bayesdice_ppl.inference.engine import Solution, nothing_but
from bayesdice_ppl.inference.problem import FitForm, Problem
from bayesdice_ppl.inference.training import Given, Reading, Task, TrainingPlan
from bayesdice_ppl.models import GaussianPosterior, TrainedModel, TrainedRatio
from bayesdice_ppl.models.gaussian import square_root
from bayesdice_ppl.moments import VALUE_ROW
from bayesdice_ppl.progress import silent, stage

_LAST = 0.1
"""Share of the steps over which the drift is measured."""


@final
class MinMax(NamedTuple):
    """Min-max training as an engine (hashable), for `bayesdice_ppl.models.mean_deviation`.

    Attributes
    ----------
    steps
        Most steps; both rates fall along a cosine.
    batch
        Pairs of state and action in a mini-batch; None: all of them in every step. Of a log with
        fewer all are taken.
    restarts
        Networks that start apart, whose draws are mixed.
    draws
        Even number of functions that are drawn in a step, in mirrored pairs.
    learning_rate
        First rate of the networks' weights (AdamW).
    ascent_rate
        First rate of the multipliers, in (0, 1]: the share of the last batch in their average.
    weight_decay
        Of the networks' weights, in units of their rate.
    clip
        Largest norm of the networks' gradient in a step; a longer one is shortened.
    checks
        How often the training is looked at, for the progress bar, checkpoints and early stopping.
    held_out
        Share of the episodes (of the transitions, where cells are not kept by episode) that each
        candidate's scout does not see. Where its loss there, as the median of the last checks, has
        risen past the least by more than one sd of a right ratio's loss, networks of that time are
        not kept. 0: no scouts.
    patience
        Checks in that median; and those without networks that are kept, of any candidate, after
        which the training ends.
    devices
        Devices among which each mini-batch is divided.
    checkpoint
        File for the training's state. Training goes on from it, if it is of the same problem.
    progress
        Whether to show a progress bar; there is none where the output is not a terminal.
    """

    steps: int = 4000
    batch: int | None = 2048
    restarts: int = 3
    draws: int = 16
    learning_rate: float = 2e-3
    ascent_rate: float = 0.3
    weight_decay: float = 1e-4
    clip: float = 10.0
    checks: int = 40
    held_out: float = 0.2
    patience: int = 10
    devices: int = 1
    checkpoint: str | None = None
    progress: bool = True

    @property
    def name(self) -> str:
        """What it is called."""
        return "minmax"

    @property
    def guided(self) -> bool:
        """It moves in the networks' weights."""
        return False

    @property
    def tangent(self) -> bool:
        """It takes the ratio as it is."""
        return False

    @property
    def trains(self) -> bool:
        """It trains a model's networks."""
        return True

    def check(self, form: FitForm, draws: int) -> None:
        """Refuse other models, constraints that a mini-batch cannot say, and numbers out of range.

        Raises
        ------
        SettingsError
            Something cannot go together; the message says what to change.
        """
        constraint = form.constraint
        if not (isinstance(form.model, TrainedModel) and form.model.trained):
            raise SettingsError(
                "inference='minmax': expected a model that is trained, such as "
                f"bd.models.mean_deviation(), found {form.model}. Leave inference out."
            )
        if constraint.searched or constraint.normalization is not None:
            found = "lam='search'" if constraint.searched else "normalization="
            raise SettingsError(
                "inference='minmax': expected a fixed lam and the normalization among the other "
                f"rows, found {found}. Leave it out."
            )
        if constraint.inner == "exact":
            raise SettingsError(
                "inference='minmax': its multipliers are fitted, found inner='exact'. Leave inner "
                "out."
            )
        missing = constraint.closed_form_missing()
        if missing is not None:
            raise SettingsError(
                "inference='minmax': expected a quadratic penalty and Markov's surrogate, to which "
                f"its multipliers and mini-batches are fitted, found {missing}. Use model='linear' "
                "with inference='svi'."
            )
        for name in ("steps", "restarts", "checks", "patience", "devices"):
            checks.whole(f"minmax.{name}", getattr(self, name))
        checks.even("minmax.draws", self.draws)
        for name in ("learning_rate", "clip"):
            checks.positive(f"minmax.{name}", getattr(self, name))
        checks.share("minmax.ascent_rate", self.ascent_rate)
        checks.nonnegative("minmax.weight_decay", self.weight_decay)
        checks.flag("minmax.progress", self.progress)
        if self.held_out != 0.0:
            checks.between("minmax.held_out", self.held_out, 0.0, 1.0)
        if self.batch is not None:
            checks.whole("minmax.batch", self.batch)
        if self.devices > 1 and (self.batch is None or self.batch % self.devices):
            raise SettingsError(
                f"minmax.devices: expected a batch that {self.devices} devices can share, found "
                f"batch={self.batch}. Give a multiple of {self.devices}."
            )
        if draws < self.restarts:
            raise SettingsError(
                f"draws: expected at least one for each of {self.restarts} restarts, found {draws}."
            )

    def solve(self, problem: Problem, rng_key: PRNGKeyArray, form: FitForm, draws: int) -> Solution:
        """Train, and draw from the mixture."""
        found = train(problem, rng_key, form, self)
        networks = training.networks_of(found.params)
        untrained: Any = problem.ratio
        ratio: Any = jax.vmap(TrainedRatio)(untrained, networks)
        key_draws = jax.random.fold_in(rng_key, self.restarts)
        value_constraint = form.constraint.value_constraint

        def mixture(ratio: TrainedRatio, params: Any) -> Float[Array, "draws L"]:
            return _mixture(ratio, params, key_draws, draws, value_constraint)

        latent = jax.vmap(mixture)(ratio, found.params)
        mean = jnp.mean(latent, axis=1)
        off = latent - mean[:, None]
        covariance = jnp.swapaxes(off, 1, 2) @ off / (draws - 1)
        posterior = GaussianPosterior(mean, jax.vmap(square_root)(covariance))
        return nothing_but(posterior, problem, form)._replace(
            elbo=found.elbo,
            drift=found.drift,
            sampled=latent[:, None],
            trained=(ratio, found.constraint),
        )


class TrainingResult(NamedTuple):
    """What training found, for N candidates and T restarts.

    Attributes
    ----------
    params
        Parameters of the program, leading axes (N, T).
    constraint
        The constraint that was trained on, stacked.
    elbo
        The objective at each step, averaged over restarts, shape (N, steps).
    drift
        How far the value's mean (in sds) and its sd (relative) moved in the last tenth, averaged
        over restarts, shape (N, 2).
    held_out
        The scouts' losses at each check, shape (checks, N).
    kept
        Step whose networks are kept, shape (N,).
    """

    params: Any
    constraint: Any
    elbo: Float[np.ndarray, "N steps"]
    drift: Float[np.ndarray, "N 2"]
    held_out: Float[np.ndarray, "checks N"]
    kept: Float[np.ndarray, " N"]


def train(
    problem: Problem, rng_key: PRNGKeyArray, form: FitForm, settings: MinMax
) -> TrainingResult:
    """Train all candidates; called under ``jax.enable_x64(True)``.

    Parameters
    ----------
    problem
        From `bayesdice_ppl.inference.prepare`, of a model that is trained.
    rng_key
        The same for every candidate.
    form
        What is fitted.
    settings
        Steps, rates and the rest.

    Raises
    ------
    SettingsError
        There are fewer devices than asked for, or the checkpoint is of another problem.
    """
    seed = tuple(int(x) for x in np.asarray(jax.random.key_data(rng_key)).ravel())
    task, plan, constraint, share = task_of(problem, form, settings, seed)
    ratio: Any = problem.ratio
    restarts = settings.restarts
    n_pairs, batch = task.ratio.inputs.shape[1], plan.batch
    cells = jax.tree.map(np.asarray, problem.cells)
    visits: Any = np.bincount(cells.pair, cells.count, n_pairs) / cells.n_transitions
    place = _placing(settings.devices)
    task, visits = place((task, visits), whole=True)
    states = place(training.start(task, rng_key, plan), whole=True)

    length = -(-settings.steps // settings.checks)
    n_policies, n_rows = ratio.rows.shape[0], ratio.rows.shape[2]
    tolerance = np.sqrt(n_rows / 2.0)
    run = _Run(
        done=0,
        states=states,
        kept=jax.tree.map(jnp.copy, states),
        kept_at=np.zeros(n_policies),
        least=np.full(n_policies, np.inf),
        since=0,
        elbo=np.full((n_policies, settings.steps), np.nan),
        held_out=np.full((settings.checks, n_policies), np.nan),
        value=np.full((settings.checks, 2, n_policies), np.nan),
    )
    file = Checkpoint(settings.checkpoint, (plan, settings.checks, seed), task)
    run = file.load(run)
    with silent(really=not settings.progress), stage("training", settings.steps) as shown:
        shown.tell(run.done)
        begun, started = run.done, time.perf_counter()
        while run.done < settings.steps and run.since < settings.patience:
            number = min(length, settings.steps - run.done)
            pairs: Any = None
            if batch is not None:
                pairs = training.batches(seed, n_pairs, batch, run.done, number)
                pairs = place(pairs, whole=False)
            shape = (len(task.first_rows), settings.draws // 2, 1 + ratio.noise)
            noise = place(training.noises(seed, shape, run.done, number), whole=True)
            states, elbo = training.advance(run.states, task, Given(pairs, noise), plan, number)
            reading = training.read(states, task, visits, share, plan)
            run = _after(
                run, states, np.asarray(elbo), reading, tolerance, length, settings.patience
            )
            rate = (run.done - begun) / (time.perf_counter() - started)
            shown.tell(run.done, words=_words(elbo, reading, rate))
            file.save(run)
    svi = training.program(plan)
    kept = jax.tree.map(lambda x: x[:, :restarts], run.kept)
    params = jax.vmap(jax.vmap(svi.get_params))(kept)
    return TrainingResult(
        params=params,
        constraint=constraint,
        elbo=run.elbo[:, : run.done],
        drift=_drift(run.value, -(-run.done // length)),
        held_out=run.held_out,
        kept=run.kept_at,
    )


def _words(elbo: Any, reading: Reading, rate: float) -> str:
    """How a training stands: means over candidates and restarts, and steps a second."""
    return (
        f"training: loss {-np.mean(elbo):.4g}, J {np.mean(reading.criterion):.4g}, "
        f"E[zeta] {np.mean(reading.mass):.3f}, {rate:.0f} steps/s"
    )


def task_of(
    problem: Problem, form: FitForm, settings: MinMax, seed: tuple[int, ...]
) -> tuple[Task, TrainingPlan, Any, float]:
    """What is trained, how, on which constraint, and the share of the log that scouts do not see.

    Parameters
    ----------
    problem, form, settings
        As for `train`.
    seed
        Numbers that the scouts' part follows from.
    """
    ratio: Any = problem.ratio
    constraint = _softened(problem, form)
    n_pairs = ratio.inputs.shape[1]
    whole = settings.batch is None or settings.batch >= n_pairs
    chosen = form.constraint
    plan = TrainingPlan(
        steps=settings.steps,
        draws=settings.draws,
        learning_rate=settings.learning_rate,
        ascent_rate=settings.ascent_rate,
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        batch=None if whole else settings.batch,
        value_constraint=chosen.value_constraint,
    )
    task = Task(ratio, _single(constraint), jnp.zeros(settings.restarts, int))
    if settings.held_out == 0.0:
        return task, plan, constraint, 0.0
    seen, unseen, share = training.held_out_rows(problem, settings.held_out, seed)
    both = jnp.concatenate([ratio.rows, jnp.asarray(seen)], axis=1)
    task = Task(
        eqx.tree_at(lambda own: own.rows, ratio, both),
        task.constraint,
        jnp.append(task.first_rows, n_pairs),
        jnp.asarray(unseen),
    )
    return task, plan, constraint, share


class _Run(NamedTuple):
    """The state of a training, as a checkpoint has it."""

    done: int
    states: Any
    kept: Any
    kept_at: Float[np.ndarray, " N"]
    least: Float[np.ndarray, " N"]
    since: int
    elbo: Float[np.ndarray, "N steps"]
    held_out: Float[np.ndarray, "checks N"]
    value: Float[np.ndarray, "checks 2 N"]


def _after(
    run: _Run,
    states: Any,
    elbo: Float[np.ndarray, "N steps"],
    reading: Reading,
    tolerance: float,
    length: int,
    patience: int,
) -> _Run:
    """The state after some steps: networks are kept where the held-out loss has not risen."""
    done, check = run.done + elbo.shape[1], run.done // length
    held_out = run.held_out.copy()
    held_out[check] = reading.held_out
    # At high rates the loss of one check says little.
    loss = np.median(held_out[max(check + 1 - patience, 0) : check + 1], axis=0)
    good = loss <= run.least + tolerance
    where = jnp.asarray(good)

    def latest(new: Array, old: Array) -> Array:
        return jnp.where(where.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    every, value = run.elbo.copy(), run.value.copy()
    every[:, run.done : done] = elbo
    value[check] = np.mean(reading.value, axis=1), np.mean(reading.spread, axis=1)
    return _Run(
        done=done,
        states=states,
        kept=jax.tree.map(latest, states, run.kept),
        kept_at=np.where(good, done, run.kept_at),
        least=np.fmin(run.least, loss),
        since=0 if good.any() else run.since + 1,
        elbo=every,
        held_out=held_out,
        value=value,
    )


def _drift(value: Float[np.ndarray, "checks 2 N"], n_checks: int) -> Float[np.ndarray, "N 2"]:
    last = n_checks - 1
    before = max(last - max(round(_LAST * n_checks), 1), 0)
    (mean, sd), (mean_before, sd_before) = value[last], value[before]
    safe = np.where(sd > 0.0, sd, np.inf)
    return np.stack([np.abs(mean - mean_before) / safe, np.abs(sd - sd_before) / safe], axis=1)


def _mixture(
    ratio: TrainedRatio,
    params: Any,
    rng_key: PRNGKeyArray,
    draws: int,
    value_constraint: bool,
) -> Float[Array, "draws L"]:
    """Draws of (noise, which networks, value); restarts take turns."""
    n_restarts = params["beta_level"].shape[0]
    size = 1 + ratio.untrained.noise
    noise = jax.random.normal(rng_key, (draws, size))
    turn = jax.nn.one_hot(jnp.arange(draws) % n_restarts, n_restarts)
    latent = jnp.concatenate([noise, turn], axis=1)
    if value_constraint:
        value_of = jax.vmap(lambda own: training.value_of(ratio.untrained, own, jnp.zeros(1)))
        center, scale = value_of(params)
        value = turn @ center + (turn @ scale) * noise[:, 0]
    else:
        value = ratio.residual(latent)[:, VALUE_ROW]
    return jnp.concatenate([latent, value[:, None]], axis=1)


def _softened(problem: Problem, form: FitForm) -> Any:
    """The constraint, with a metric of the residual that steps of first order can follow."""
    constraint, choice = problem.constraint, form.constraint.penalty
    if not choice.calibrated:
        return constraint
    penalty: Any = constraint.penalty
    factors, rows = np.asarray(penalty.factor), np.asarray(penalty.rows)
    given = zip(factors, np.asarray(problem.pilots.slope), rows, strict=True)
    soft = [training.softened(factor @ factor.T, slope, row) for factor, slope, row in given]
    built = jax.vmap(choice.build)(jnp.asarray(np.stack(soft)), jnp.asarray(rows))
    return constraint._replace(penalty=built)


def _single(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)


def _placing(devices: int) -> Any:
    """Put arrays on all devices: whole, or mini-batches divided among them."""
    if devices == 1:
        return lambda tree, **_: tree
    from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

    present = jax.devices()
    if len(present) < devices:
        raise SettingsError(
            f"minmax.devices: expected at most {len(present)}, which JAX sees, found {devices}."
        )
    mesh = Mesh(np.array(present[:devices]), ("batch",), axis_types=(AxisType.Auto,))

    def place(tree: Any, *, whole: bool) -> Any:
        spec = PartitionSpec() if whole else PartitionSpec(None, "batch")
        return jax.device_put(tree, NamedSharding(mesh, spec))

    return place
