"""Logs like a log: a table of what followed each pair, from which episodes are played anew.

What follows a pair of state and action is one of its own logged rows: reward, successor and
termination together. So the world is the log's own table. Rewards of one group move together as
they do in the log. Its values are known by linear algebra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.calibration.rewards import RewardLaw
from bayesdice_ppl.calibration.shared import groupings_of
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.logs import Logs, usable_rows
from bayesdice_ppl.policies import align_policies

MOST_STEPS = 100_000
"""Steps of one simulated episode past which something is wrong."""


class TableWorld(NamedTuple):
    """A world made of a log's own rows.

    Attributes
    ----------
    logs
        The log.
    names
        The N candidates.
    probabilities
        The candidates in each state, shape (N, S, A).
    behavior
        Frequencies of the logged actions, shape (S, A); zero where none was logged.
    action_code
        Each action's code in the log, -1 where it was never logged, shape (A,).
    row
        The log's rows that can be drawn, ordered by pair, shape (n,).
    weight
        Their weights within the pair, shape (n,), which sum to 1.
    start, stop
        First and last of each pair's rows in ``row``, shape (S, A); a pair without rows of its own
        has those of another one, which stands in for it.
    rewards
        How rewards are drawn, given the rows.
    length
        Lengths that episodes are cut at, shape (k,).
    gamma
        Discount.
    restart
        Whether a fresh start follows a termination.
    """

    logs: Logs
    names: tuple[str, ...]
    probabilities: Float[np.ndarray, "N S A"]
    behavior: Float[np.ndarray, "S A"]
    action_code: Int[np.ndarray, " A"]
    row: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    start: Int[np.ndarray, "S A"]
    stop: Int[np.ndarray, "S A"]
    rewards: RewardLaw
    length: Int[np.ndarray, " k"]
    gamma: float
    restart: bool

    def drawn(self, rng: np.random.Generator, *, weights: bool) -> TableWorld:
        """A world like this one.

        Parameters
        ----------
        rng
            Draws what stands in for pairs without rows and, if asked for, the weights.
        weights
            Whether the rows of each pair get weights of their own (the Bayesian bootstrap), so
            that the world itself is a draw of what it may be given the log.
        """
        own = self.stop > self.start
        start, stop = self.start.copy(), self.stop.copy()
        states, actions = np.nonzero(~own)
        logged = np.argwhere(own)
        for s, a in zip(states, actions, strict=True):
            near = logged[logged[:, 0] == s]
            among = near if len(near) else logged
            u, b = among[rng.integers(len(among))]
            start[s, a], stop[s, a] = self.start[u, b], self.stop[u, b]
        weight = self.weight
        if weights:
            raw = rng.exponential(size=len(weight))
            pair = np.repeat(np.arange(own.sum()), (self.stop - self.start)[own])
            weight = raw / np.bincount(pair, raw)[pair]
        return self._replace(start=start, stop=stop, weight=weight)

    def values(self) -> Float[np.ndarray, " N"]:
        """True value of each candidate, reward per step."""
        n_states = len(self.logs.state_labels)
        logs, rows = self.logs, self.row
        shape = self.start.shape
        reward, ends = np.zeros(shape), np.zeros(shape)
        moves = np.zeros((*shape, n_states))
        paying = self.rewards.expected
        for s, a in np.ndindex(shape):
            here = slice(self.start[s, a], self.stop[s, a])
            which, weight = rows[here], self.weight[here] / self.weight[here].sum()
            reward[s, a] = weight @ paying[which]
            ended = logs.terminated[which]
            ends[s, a] = weight @ ended
            if self.gamma > 0.0:
                np.add.at(moves[s, a], logs.next_state[which][~ended], weight[~ended])
        first = np.bincount(logs.initial_state, minlength=n_states) / logs.n_episodes
        found = []
        for policy in _whole(self.probabilities):
            paid = np.sum(policy * reward, axis=1)
            onward = np.einsum("sa,sat->st", policy, moves)
            if self.restart:
                onward += np.outer(np.sum(policy * ends, axis=1), first)
            found.append(_value(onward, paid, first, self.gamma))
        return np.array(found)

    def play(self, rng: np.random.Generator) -> Logs:
        """A log of the logging policy, with as many episodes as the log has."""
        logs, m = self.logs, self.logs.n_episodes
        state = rng.choice(logs.initial_state, size=m)
        limit = rng.choice(self.length, size=m)
        acts = np.cumsum(self.behavior, axis=1)
        # One sum for all pairs: the rows of a pair end at its own weight past those before.
        cumulative = np.concatenate([[0.0], np.cumsum(self.weight)])
        live = np.arange(m)
        played: list[tuple[np.ndarray, ...]] = []
        for step in range(MOST_STEPS):
            here = state[live]
            live = live[acts[here, -1] > 0.0]
            here = state[live]
            if not len(live):
                break
            points = rng.random(len(live)) * acts[here, -1]
            action = (points[:, None] >= acts[here]).sum(axis=1)
            low, high = self.start[here, action], self.stop[here, action]
            span = cumulative[high] - cumulative[low]
            place = np.searchsorted(
                cumulative, cumulative[low] + rng.random(len(live)) * span, side="right"
            )
            row = self.row[np.clip(place - 1, low, high - 1)]
            played.append((live, np.full(len(live), step), here, action, row))
            onward = ~logs.terminated[row] & (step + 1 < limit[live])
            state[live] = logs.next_state[row]
            live = live[onward]
        columns = [np.concatenate(each) for each in zip(*played, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        episode, step_of, before, action, row = (each[order] for each in columns)
        return _as_logs(self, rng, episode, step_of, before, action, row)


def _whole(probabilities: Float[np.ndarray, "N S A"]) -> Float[np.ndarray, "N S A"]:
    """Probabilities that sum to 1: uniform in a state in which no action is taken."""
    total = probabilities.sum(axis=2, keepdims=True)
    uniform = 1.0 / probabilities.shape[2]
    return np.where(total > 0.0, probabilities / np.where(total > 0.0, total, 1.0), uniform)


def _value(
    onward: Float[np.ndarray, "S S"],
    paid: Float[np.ndarray, " S"],
    first: Float[np.ndarray, " S"],
    gamma: float,
) -> float:
    size = len(paid)
    if gamma < 1.0:
        worth = np.linalg.solve(np.eye(size) - gamma * onward, paid)
        return float((1.0 - gamma) * first @ worth)
    # The limit of shares of steps from these starts. A lazy chain has no periods.
    power = np.linalg.matrix_power(0.5 * (np.eye(size) + onward), 2**20)
    return float(first @ power @ paid)


def _as_logs(
    world: TableWorld,
    rng: np.random.Generator,
    episode: Int[np.ndarray, " n"],
    step: Int[np.ndarray, " n"],
    state: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    row: Int[np.ndarray, " n"],
) -> Logs:
    logs = world.logs
    ended = logs.terminated[row]
    last = np.r_[episode[1:] != episode[:-1], True]
    shares = world.behavior[state, action]
    # An episode is in the groups of the log's own of that number, step by step.
    length = np.bincount(logs.episode)
    at = logs.first_rows[episode] + np.minimum(step, length[episode] - 1)
    return replace(
        logs,
        episode=np.unique(episode, return_inverse=True)[1],
        step=step,
        state=state,
        action=world.action_code[action],
        reward=world.rewards.drawn(row, at, rng),
        next_state=np.where(ended & (logs.next_state[row] < 0), state, logs.next_state[row]),
        terminated=ended,
        truncated=last & ~ended,
        propensity=None if logs.propensity is None else shares,
        episode_labels=np.arange(len(np.unique(episode))),
        row=np.arange(1, len(row) + 1),
        groups={name: series.gather(at) for name, series in logs.groups.items()},
        lookalikes={},
    )


def table_world(
    logs: Logs,
    policies: Mapping[str, Any],
    gamma: float,
    *,
    restart: bool,
    asked: tuple[str, ...] = (),
    plain: bool = False,
) -> TableWorld:
    """The world that a log of labels is a table of.

    Parameters
    ----------
    logs, policies
        The log and the candidates.
    gamma
        Discount.
    restart
        Whether a fresh start follows a termination.
    asked
        Columns that a fit is asked to take for groups.
    plain
        Whether rewards are drawn as they are, without what groups share and without tails.

    Raises
    ------
    SettingsError
        The log holds vectors, of which there is no table.
    """
    if logs.vector_states or logs.vector_actions:
        part = "states" if logs.vector_states else "actions"
        raise SettingsError(
            f"kind: expected labels for a table of the log, found {part} that are vectors. Use "
            "kind='bootstrap'."
        )
    aligned = align_policies(logs, policies, needs_successors=gamma > 0.0)
    used = np.flatnonzero(usable_rows(logs, gamma).mask)
    shape = (len(logs.state_labels), len(aligned.actions))
    codes = aligned.codes(logs)
    pair = np.ravel_multi_index((logs.state[used], codes[logs.action[used]]), shape)
    order = np.argsort(pair, kind="stable")
    visits = np.bincount(pair, minlength=shape[0] * shape[1])
    stop = np.cumsum(visits).reshape(shape)
    counts = visits.reshape(shape).astype(np.float64)
    total = counts.sum(axis=1, keepdims=True)
    # Rewards count whether their row's successor is known or not.
    of_row = np.ravel_multi_index((logs.state, codes[logs.action]), shape)
    rewards = RewardLaw.of_log(logs.reward, of_row, groupings_of(logs, asked), plain=plain)
    action_code = np.full(shape[1], -1)
    action_code[codes] = np.arange(len(codes))
    return TableWorld(
        logs=logs,
        names=aligned.names,
        probabilities=aligned.probabilities,
        behavior=counts / np.where(total > 0.0, total, 1.0),
        action_code=action_code,
        row=used[order],
        weight=1.0 / visits[pair[order]],
        start=stop - visits.reshape(shape),
        stop=stop,
        rewards=rewards,
        length=_lengths(logs),
        gamma=gamma,
        restart=restart,
    )


def _lengths(logs: Logs) -> Int[np.ndarray, " k"]:
    """Lengths of the episodes that were cut; of the longest one where all terminated."""
    length = np.bincount(logs.episode)
    ended = np.bincount(logs.episode, logs.terminated) > 0
    return length[~ended] if np.any(~ended) else length.max(keepdims=True)
