"""Far: candidates that live on what the log hardly has, with true widths beside the believed ones.

Random worlds whose truths are linear algebra. The sd of an estimate has three readings: realized
over logs, by the asymptotic formula at the true world, and believed. Where the last differs from
the other two, the belief is at fault; where the first two differ, the formula is.
"""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array, Bool, Float, Int

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import flat_settings
from bayesdice_ppl.moments import Cells
from benchmarks.coverage import central_mass
from benchmarks.tables import RESULTS, write_table
from benchmarks.trials import believe

TRIALS = 300
FITS = 8
"""Logs of each world that go through the whole of `bayesdice_ppl.fit`, for its warnings."""
WORLDS = 8
LEVELS = (0.5, 0.8, 0.9, 0.95)
STATES, ACTIONS = 10, 3
FORMS: dict[str, dict[str, Any]] = {"default": {}, "one sd": {"rare_share": 0.0}}
COMMAND = "python -m benchmarks far"
NOTES = (
    f"One row is one kind of log and one form of the prior, over {WORLDS} worlds of {STATES} "
    f"states and {ACTIONS} actions with `logs` logs each. All distributions of a world are drawn "
    "from Dirichlet(1), but for far targets, from Dirichlet(0.5), whose behavior policies at gamma "
    "= 1 are from Dirichlet(0.7), those of the farthest from Dirichlet(0.5), and for near "
    "policies, both from Dirichlet(5). Rewards are normal with sd 1, or fixed. `default`: the "
    "library's prior; `one sd`: the ratio of every pair has a prior sd of 10, "
    "`bd.Prior(rare_share=0)`.",
    "`cov_50` to `cov_95`: share of logs of all worlds whose central Student t interval holds the "
    "true value; `mace`: mean over worlds of the four levels' mean |coverage - nominal| "
    "(calibrated beliefs show 0.016 with 300 logs), `mace_worst` the largest. `spread`: sd of "
    "(posterior mean - truth) over logs, divided by the mean believed sd, mean over worlds, and "
    "`spread_worst` the largest; `formula`: the mean with the asymptotic sd at the true world in "
    f"place of the realized one. `warned`, `abstained`: shares of the first {FITS} logs of each "
    "world on which `bayesdice_ppl.fit` warns, and abstains, under its own prior; `kept_90`: "
    "coverage at 90 % of those on which it does not abstain.",
    "A log of `n` transitions is cut there, with a new episode after each end; episodes end with "
    "the world's own probability or after `steps` steps.",
)


class Kind(NamedTuple):
    """One kind of world and log.

    Attributes
    ----------
    name
        Name of the row.
    gamma
        Discount.
    n
        Transitions of a log, which is cut there; 0: as many as `n_episodes` have.
    on_termination
        How a termination is read.
    termination
        Mean probability that a step ends the episode; each pair has its own.
    steps
        Most steps of an episode.
    target, behavior
        Concentration of the Dirichlet that policies are drawn from.
    noise
        Standard deviation of rewards.
    n_episodes
        Number of episodes, if that is what is fixed.
    """

    name: str
    gamma: float
    n: int = 5_000
    on_termination: str = "restart"
    termination: float = 0.0
    steps: int = 10_000
    target: float = 1.0
    behavior: float = 1.0
    noise: float = 1.0
    n_episodes: int = 0

    @property
    def restart(self) -> bool:
        """Whether a start follows a termination."""
        return self.on_termination == "restart"


KINDS = (
    Kind("absorbing, cut at n", 0.95, on_termination="absorb", termination=0.05),
    Kind(
        "absorbing, 250 episodes",
        0.95,
        n=0,
        on_termination="absorb",
        termination=0.05,
        n_episodes=250,
    ),
    Kind("far target, average reward", 1.0, steps=100, target=0.5, behavior=0.7),
    Kind("farthest target, average reward", 1.0, steps=100, target=0.5, behavior=0.5),
    Kind("far target, episodes of 50 steps", 0.95, target=0.5, steps=50),
    Kind("fixed rewards, n 200", 0.9, n=200, noise=0.0, steps=20),
    Kind("near, absorbing", 0.95, 5_000, "absorb", 0.05, target=5.0, behavior=5.0),
    Kind("near, average reward", 1.0, steps=100, target=5.0, behavior=5.0),
)


class World(NamedTuple):
    """A world and two policies.

    Attributes
    ----------
    move
        Probability of each next state, and last of a termination, shape (S, A, S + 1).
    reward
        Mean reward, shape (S, A).
    start
        Distribution of first states, shape (S,).
    behavior, target
        Policies, shape (S, A).
    """

    move: Float[np.ndarray, "S A S1"]
    reward: Float[np.ndarray, "S A"]
    start: Float[np.ndarray, " S"]
    behavior: Float[np.ndarray, "S A"]
    target: Float[np.ndarray, "S A"]


def make_world(kind: Kind, seed: int) -> World:
    """Draw a world; worlds of one seed differ by their kind alone."""
    rng = np.random.default_rng(seed)
    move = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    ends = 2.0 * kind.termination * rng.random((STATES, ACTIONS, 1))
    return World(
        np.concatenate([move * (1.0 - ends), ends], axis=2),
        rng.normal(size=(STATES, ACTIONS)),
        rng.dirichlet(np.ones(STATES)),
        rng.dirichlet(np.full(ACTIONS, kind.behavior), size=STATES),
        rng.dirichlet(np.full(ACTIONS, kind.target), size=STATES),
    )


class Truth(NamedTuple):
    """The target in its world, by linear algebra.

    Attributes
    ----------
    value
        Normalized value.
    share
        Share of its (discounted) steps in each pair, shape (S, A).
    variance
        Variance of a temporal difference in each pair, shape (S, A).
    start_variance
        Variance of the state value over first states, times the squared mass that starts a step.
    """

    value: float
    share: Float[np.ndarray, "S A"]
    variance: Float[np.ndarray, "S A"]
    start_variance: float

    def sd(self, visits: Float[np.ndarray, "S A"], n_episodes: float) -> float:
        """Asymptotic sd of the estimate, from the numbers of visits and episodes."""
        each = self.share**2 * self.variance / np.maximum(visits, 1e-9)
        return float(np.sqrt(each.sum() + self.start_variance / n_episodes))


def find_truth(world: World, kind: Kind) -> Truth:
    """Value, occupancy and the variances behind the error of an estimate.

    With d the occupancy, V the state values and n_sa visits, the error of the estimated model's
    value has variance sum d_sa^2 Var(r + gamma V(s')) / n_sa + c0^2 Var(V(s0)) / m to first order,
    where c0 is the mass that enters by first states a step. At gamma = 1 V is relative.
    """
    gamma = kind.gamma
    flow = np.einsum("sa,sat->st", world.target, world.move)
    chain = flow[:, :-1] + (flow[:, -1:] * world.start if kind.restart else 0.0)
    reward = (world.target * world.reward).sum(axis=1)
    size = len(chain)
    if gamma < 1.0:
        visits = np.linalg.solve(np.eye(size) - gamma * chain.T, (1.0 - gamma) * world.start)
        values = np.linalg.solve(np.eye(size) - gamma * chain, reward)
    else:
        system = np.vstack([np.eye(size) - chain.T, np.ones(size)])
        visits = np.linalg.lstsq(system, np.r_[np.zeros(size), 1.0], rcond=None)[0]
        relative = np.eye(size) - chain + np.outer(np.ones(size), world.start)
        values = np.linalg.solve(relative, reward - visits @ reward)
    share = visits[:, None] * world.target
    first = world.start @ values
    following = gamma * np.r_[values, first if kind.restart else 0.0]
    variance = world.move @ following**2 - (world.move @ following) ** 2 + kind.noise**2
    ended = (share * world.move[:, :, -1]).sum() if kind.restart else 0.0
    entering = 1.0 - gamma + gamma * ended
    starts = entering**2 * float(world.start @ (values - first) ** 2)
    return Truth(float(visits @ reward), share, variance, starts)


class Played(NamedTuple):
    """L logs, step by step: fields of shape (L, T); rows that are not `logged` do not count.

    Attributes
    ----------
    state, action, following
        Codes; the following state is S where the episode ended.
    episode
        Number of the episode.
    first
        Whether the row starts an episode.
    logged
        Whether the row is part of the log.
    reward
        Rewards.
    """

    state: Int[np.ndarray, "L T"]
    action: Int[np.ndarray, "L T"]
    following: Int[np.ndarray, "L T"]
    episode: Int[np.ndarray, "L T"]
    first: Bool[np.ndarray, "L T"]
    logged: Bool[np.ndarray, "L T"]
    reward: Float[np.ndarray, "L T"]


def play(world: World, kind: Kind, n_logs: int, rng: np.random.Generator) -> Played:
    """Play the behavior policy in many logs at once."""

    def pick(probabilities: Float[np.ndarray, "L k"]) -> Int[np.ndarray, " L"]:
        below = np.cumsum(probabilities, axis=1)[:, :-1] <= rng.random(len(probabilities))[:, None]
        return below.sum(axis=1)

    def begin() -> Int[np.ndarray, " L"]:
        return pick(np.broadcast_to(world.start, (n_logs, STATES)))

    state, step, episode = begin(), np.zeros(n_logs, int), np.zeros(n_logs, int)
    live = np.ones(n_logs, dtype=bool)
    columns = []
    while live.any() and not (kind.n and len(columns) == kind.n):
        action = pick(world.behavior[state])
        following = pick(world.move[state, action])
        columns.append((state, action, following, episode, step == 0, live))
        over = (following == STATES) | (step + 1 >= kind.steps)
        episode = episode + over
        live = live & ((episode < kind.n_episodes) | (kind.n_episodes == 0))
        state = np.where(over, begin(), np.minimum(following, STATES - 1))
        step = np.where(over, 0, step + 1)
    fields = [np.stack(column, axis=1) for column in zip(*columns, strict=True)]
    noise = kind.noise * rng.normal(size=fields[0].shape)
    return Played(*fields, reward=world.reward[fields[0], fields[1]] + noise)


def count(played: Played) -> Cells:
    """Count every log into all S A (S + 1) cells; the shared fields are repeated."""
    n_logs, width = len(played.state), STATES + 1
    n_cells = STATES * ACTIONS * width
    cell = (played.state * ACTIONS + played.action) * width + played.following
    cell = cell + n_cells * np.arange(n_logs)[:, None]

    def sums(values: Float[np.ndarray, "L T"]) -> Float[np.ndarray, "L C"]:
        kept = (values * played.logged).ravel()
        return np.bincount(cell.ravel(), kept, n_logs * n_cells).reshape(n_logs, n_cells)

    state, action, following = (
        grid.ravel() for grid in np.indices((STATES, ACTIONS, width), dtype=np.int64)
    )
    first = played.first & played.logged
    place = played.state + STATES * np.arange(n_logs)[:, None]
    starts = np.bincount(place[first], minlength=n_logs * STATES).reshape(n_logs, STATES)
    pairs = np.arange(STATES * ACTIONS)

    def shared(values: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(values), (n_logs, *np.shape(values)))

    return Cells(
        pair=shared(state * ACTIONS + action),
        successor=shared(np.where(following == STATES, 0, following)),
        terminated=shared((following == STATES).astype(float)),
        count=sums(np.ones_like(played.reward)),
        reward_sum=sums(played.reward),
        reward_square_sum=sums(played.reward**2),
        episode=shared(np.zeros(n_cells, dtype=np.int64)),
        pair_state=shared(pairs // ACTIONS),
        pair_action=shared(pairs % ACTIONS),
        initial_state=shared(np.arange(STATES)),
        initial_weight=starts / starts.sum(axis=1, keepdims=True),
        n_transitions=played.logged.sum(axis=1).astype(float),
        n_episodes=starts.sum(axis=1).astype(float),
        absorbed_reward=np.zeros(n_logs),
    )


def beliefs(cells: Cells, world: World, kind: Kind) -> dict[str, dict[str, np.ndarray]]:
    """Closed-form beliefs of each form: mean, sd and degrees of freedom of each log."""
    found = {}
    with jax.enable_x64(True):
        for name, choices in FORMS.items():
            settings = flat_settings(
                gamma=kind.gamma,
                inference="exact",
                on_termination=kind.on_termination,
                **choices,
            )
            one = jax.jit(_each, static_argnames="settings")
            believed = one(jax.tree.map(jnp.asarray, cells), jnp.asarray(world.target), settings)
            found[name] = {key: np.asarray(getattr(believed, key)) for key in ("mean", "sd", "df")}
    return found


def _each(cells: Cells, target: Float[Array, "S A"], settings: Any) -> Any:
    return jax.lax.map(partial(believe, probabilities=target, settings=settings), cells)


def as_logs(played: Played, i: int) -> bd.Logs:
    """Log i as `bayesdice_ppl.fit` takes it."""
    kept = played.logged[i]
    ended = played.following[i][kept] == STATES
    state = played.state[i][kept]
    columns = {
        "episode_id": played.episode[i][kept],
        "state": state,
        "action": played.action[i][kept],
        "reward": played.reward[i][kept],
        "next_state": np.where(ended, state, played.following[i][kept]),
        "terminated": ended,
    }
    return bd.Logs.from_dataframe(pl.DataFrame(columns), actions=list(range(ACTIONS)))


def said(logs: bd.Logs, world: World, kind: Kind) -> tuple[bool, bool]:
    """Whether `bayesdice_ppl.fit` warns, and whether it abstains."""
    belief = bd.fit(
        logs,
        {"target": bd.TabularPolicy(world.target)},
        gamma=kind.gamma,
        on_termination=kind.on_termination,
        rng_key=jax.random.key(0),
        draws=10,
    )
    warnings = json.loads(belief.attrs["support_warnings"])
    return bool(warnings), any(warning["abstain"] for warning in warnings)


class Measured(NamedTuple):
    """One form of belief in one world.

    Attributes
    ----------
    mass
        `central_mass` of each log.
    spread, formula
        Realized and asymptotic sd over the mean believed sd.
    said
        Whether `fit` warns and abstains, on the first logs, shape (F, 2); None where the prior is
        not its own.
    """

    mass: Float[np.ndarray, " L"]
    spread: float
    formula: float
    said: Bool[np.ndarray, "F 2"] | None

    @property
    def coverage(self) -> Float[np.ndarray, " q"]:
        """Coverage at each level."""
        return coverage(self.mass)


def coverage(mass: Float[np.ndarray, " L"]) -> Float[np.ndarray, " q"]:
    """Share of logs whose intervals hold the truth, at each level; NaN of no logs."""
    if not len(mass):
        return np.full(len(LEVELS), np.nan)
    return (mass[:, None] <= np.array(LEVELS)).mean(axis=0)


def measure(kind: Kind, seed: int, n_logs: int) -> dict[str, Measured]:
    """One world: every form of belief of every log against the truth."""
    world = make_world(kind, seed)
    truth = find_truth(world, kind)
    played = play(world, kind, n_logs, np.random.default_rng([seed, n_logs]))
    cells = count(played)
    visits = cells.count.mean(axis=0).reshape(STATES, ACTIONS, STATES + 1).sum(axis=2)
    formula = truth.sd(visits, float(cells.n_episodes.mean()))
    told = np.array([said(as_logs(played, i), world, kind) for i in range(min(FITS, n_logs))])
    found = {}
    for name, believed in beliefs(cells, world, kind).items():
        mass = central_mass(believed["mean"], believed["sd"], believed["df"], truth.value)
        width = believed["sd"].mean()
        found[name] = Measured(
            mass,
            float(np.std(believed["mean"] - truth.value) / width),
            float(formula / width),
            None if FORMS[name] else told,
        )
    return found


def summarize(kind: Kind, form: str, worlds: list[Measured]) -> dict[str, object]:
    """One row of the table."""
    pooled = coverage(np.concatenate([world.mass for world in worlds]))
    mace = [float(np.abs(world.coverage - LEVELS).mean()) for world in worlds]
    spread = [world.spread for world in worlds]
    fits = [world for world in worlds if world.said is not None]
    shares: dict[str, float | None] = dict.fromkeys(("warned", "abstained", "kept_90"))
    if fits:
        told = np.concatenate([world.said for world in fits if world.said is not None])
        mass = np.concatenate([w.mass[: len(w.said)] for w in fits if w.said is not None])
        shares = {
            "warned": float(told[:, 0].mean()),
            "abstained": float(told[:, 1].mean()),
            "kept_90": float(coverage(mass[~told[:, 1]])[2]),
        }
    return {
        "logs of": kind.name,
        "gamma": kind.gamma,
        "prior": form,
        "logs": len(worlds[0].mass),
        **{f"cov_{100 * q:.0f}": float(c) for q, c in zip(LEVELS, pooled, strict=True)},
        "mace": float(np.mean(mace)),
        "mace_worst": max(mace),
        "spread": float(np.mean(spread)),
        "spread_worst": max(spread),
        "formula": float(np.mean([world.formula for world in worlds])),
        **shares,
    }


def main(n_logs: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the table and print it."""
    rows = []
    for kind in KINDS:
        started = time.perf_counter()
        worlds = [measure(kind, seed, n_logs) for seed in range(WORLDS)]
        rows += [summarize(kind, form, [world[form] for world in worlds]) for form in FORMS]
        print(f"{kind.name}: {time.perf_counter() - started:.0f} s", flush=True)
    command = COMMAND if n_logs == TRIALS else f"{COMMAND} --trials {n_logs}"
    print(write_table("far", rows, command=command, notes=NOTES, folder=folder))
