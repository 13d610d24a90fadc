"""Oracles that several test files hold the library against: plain loops over transitions."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import polars as pl
import pytest
from hypothesis import settings

from bayesdice_ppl import Logs, Policies, TabularPolicy
from bayesdice_ppl.fitting import flat_settings, prepare_fit
from bayesdice_ppl.inference import draw, solve
from tests.worked_cases import read_case

# The same examples in every run: a failure is one of the code and never of the day.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")


def pytest_configure(config):
    """Keep compiled functions in a file each: another worker, or the next run, need not compile."""
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


LONGEST = (
    "test_readme",
    "test_seam",
    "test_neural",
    "test_bdqn",
    "test_methods",
    "test_program",
    "test_defaults",
    "test_nuts",
    "test_svi",
    "test_select",
    "test_information",
)
"""Files that take longest, which two processes had better start with."""


def pytest_collection_modifyitems(items):
    """The longest files first, so that no process waits for one of them in the end."""
    place = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


MOST_MAPS = 20_000
"""Memory maps of one process past which compiled functions are forgotten; Linux allows 65,530."""


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_functions():
    """Each compiled function holds a few memory maps, of which thousands of tests need too many."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def close_figures():
    """Matplotlib keeps every figure, and warns of the twenty-first, whichever test draws it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


class PlainProblem:
    """The moments of one policy, one transition at a time, in the words of the method alone.

    Parameters
    ----------
    rows
        One dict per transition: episode, step, state, action, reward, next_state, terminated.
    starts
        The first state of each episode.
    policy
        State -> action -> probability.
    """

    def __init__(self, rows, starts, policy, *, gamma, restart=True):
        self.rows, self.gamma, self.restart = rows, gamma, restart
        self.n, self.m = len(rows), len(starts)
        self.pairs = sorted({(row["state"], row["action"]) for row in rows})
        self.where = {pair: k for k, pair in enumerate(self.pairs)}
        self.counts = np.zeros(len(self.pairs))
        for row in rows:
            self.counts[self.where[row["state"], row["action"]]] += 1
        self.policy = {}
        for state in {s for s, _ in self.pairs}:
            logged = {a: policy[state].get(a, 0.0) for s, a in self.pairs if s == state}
            total = sum(logged.values())
            self.policy[state] = {a: p / total for a, p in logged.items() if total > 0}
        self.kept = {
            state: sum(policy[state].get(a, 0.0) for s, a in self.pairs if s == state)
            for state in policy
        }
        self.active = self._visited(starts)
        self.phi0 = np.array([self.phi(s) for s in starts])
        self.phi0bar = sum(self.phi0) / self.m
        self.normalized = gamma == 1.0
        self.unknown = 0.0
        self.terms = np.array([self._term(row) for row in rows])
        self.pair_of_row = np.array([self.where[r["state"], r["action"]] for r in rows])
        p = len(self.pairs)
        width = self.terms.shape[1]
        self.G = np.zeros((width, p + 1))
        for k, term in zip(self.pair_of_row, self.terms, strict=True):
            self.G[:, k] += term * self.active[k] / self.n
        self.G[-1, -1] = -1.0
        self.c = np.zeros(width)
        self.c[:p] = (1.0 - gamma) * self.phi0bar
        if self.normalized:
            self.c[p] = -1.0

    def phi(self, state):
        vector = np.zeros(len(self.pairs))
        for action, probability in self.policy.get(state, {}).items():
            k = self.where[state, action]
            vector[k] = probability * self.active[k]
        return vector

    def _visited(self, starts):
        seen, frontier = set(), set(starts)
        while frontier:
            seen |= frontier
            found = set()
            for row in self.rows:
                taken = self.policy.get(row["state"], {}).get(row["action"], 0.0) > 0
                if row["state"] in seen and taken and not row["terminated"] and self.gamma > 0:
                    found.add(row["next_state"])
            frontier = found - seen
        return np.array(
            [float(s in seen and self.policy[s].get(a, 0.0) > 0) for s, a in self.pairs]
        )

    def _term(self, row):
        ended = row["terminated"] and self.gamma > 0
        following = np.zeros(len(self.pairs))
        if self.gamma > 0 and not ended:
            following = self.phi(row["next_state"])
        if ended and self.restart:
            following = self.phi0bar
        here = np.zeros(len(self.pairs))
        k = self.where[row["state"], row["action"]]
        here[k] = self.active[k]
        stationarity = self.gamma * following - here
        extra = [1.0] if self.normalized else []
        return np.concatenate([stationarity, extra, [row["reward"]]])

    def residual(self, weights, value):
        total = np.zeros(len(self.c))
        for k, term in zip(self.pair_of_row, self.terms, strict=True):
            total += weights[k] * self.active[k] * term
        total = total / self.n + self.c
        total[-1] -= value
        return total

    def entry(self, weights):
        if not self.restart:
            return 1.0 - self.gamma
        flow = sum(
            weights[k] * self.active[k]
            for k, row in zip(self.pair_of_row, self.rows, strict=True)
            if row["terminated"] and self.gamma > 0
        )
        return 1.0 - self.gamma + self.gamma * flow / self.n

    def covariance(self, weights, by_episode=False):
        weighted = (weights * self.active)[self.pair_of_row][:, None] * self.terms
        mean = weighted.mean(axis=0)
        width = len(self.c)
        initial = np.zeros((self.m, width))
        initial[:, : len(self.pairs)] = self.phi0 - self.phi0bar
        entry = self.entry(weights)
        total = np.zeros((width, width))
        if by_episode:
            psi = np.zeros((self.m, width))
            for row, term in zip(self.rows, weighted, strict=True):
                psi[row["episode"]] += self.m / self.n * (term - mean)
            psi += entry * initial
            psi -= psi.mean(axis=0)
            for one in psi:
                total += np.outer(one, one)
            return self.n / self.m * total / self.m
        for term in weighted:
            total += np.outer(term - mean, term - mean)
        total /= self.n
        starts = np.zeros((width, width))
        for one in initial:
            starts += np.outer(one, one)
        return total + self.n / self.m * entry**2 * starts / self.m

    def prior(self, prior_sd=10.0, value_prior_sd=10.0, rare_share=0.0):
        rewards = np.array([row["reward"] for row in self.rows])
        p = len(self.pairs)
        mean = np.r_[np.ones(p), rewards.mean()]
        # Where mass is absorbed at reward 0, the spread is around that reward.
        spread = rewards.std() if self.restart else np.sqrt(np.mean(rewards**2))
        rarity = np.array([max(rare_share * self.n / count, 1.0) for count in self.counts])
        return mean, np.r_[prior_sd * rarity, spread * value_prior_sd]

    def reward(self, row):
        """Reward counted from `self.unknown`, the reward per step of mass that the log loses."""
        mass = 1.0
        if row["terminated"] and not self.restart:
            mass += self.gamma / (1.0 - self.gamma)
        return row["reward"] - self.unknown * mass

    def solve(self):
        """Q of each pair and the value, from the log's own Bellman equation."""
        p, gamma = len(self.pairs), self.gamma
        flow, reward = np.zeros((p, p)), np.zeros(p)
        for row, k in zip(self.rows, self.pair_of_row, strict=True):
            reward[k] += self.reward(row) / self.counts[k]
            if not row["terminated"]:
                flow[k] += self.phi(row["next_state"]) / self.counts[k]
            elif self.restart:
                flow[k] += self.phi0bar / self.counts[k]
        if gamma < 1.0:
            q = np.linalg.solve(np.eye(p) - gamma * flow, reward)
            return q, (1.0 - gamma) * self.phi0bar @ q
        system = np.block([[np.eye(p) - flow, np.ones((p, 1))], [self.phi0bar, 0.0]])
        solved = np.linalg.solve(system, np.r_[reward, 0.0])
        return solved[:p], solved[p]

    def td_errors(self):
        """Temporal-difference error of each transition, reward included."""
        q, value = self.solve()
        start = self.phi0bar @ q
        errors = []
        for row, k in zip(self.rows, self.pair_of_row, strict=True):
            following = self.phi(row["next_state"]) @ q if self.gamma > 0 else 0.0
            if row["terminated"]:
                following = start if self.restart else 0.0
            average = value if self.gamma == 1.0 else 0.0
            errors.append(self.reward(row) + self.gamma * following - q[k] - average)
        return np.array(errors)

    def occupancy(self):
        """Share of steps that the policy spends on each pair of the log's own model."""
        p = len(self.pairs)
        flow = np.zeros((p, p))
        for row, k in zip(self.rows, self.pair_of_row, strict=True):
            if not row["terminated"]:
                flow[k] += self.phi(row["next_state"]) / self.counts[k]
            elif self.restart:
                flow[k] += self.phi0bar / self.counts[k]
        if self.gamma < 1.0:
            system = np.eye(p) - self.gamma * flow.T
            return np.linalg.solve(system, (1.0 - self.gamma) * self.phi0bar)
        system = np.vstack([np.eye(p) - flow.T, np.ones(p)])
        return np.linalg.lstsq(system, np.r_[np.zeros(p), 1.0], rcond=None)[0]

    def influence(self):
        """(transitions' influences, episodes' influences) on the value, in reward per step."""
        ratio = self.occupancy() * self.n / self.counts
        q, _ = self.solve()
        start = self.phi0 @ q
        entry = self.entry(ratio)
        return ratio[self.pair_of_row] * self.td_errors(), entry * (start - start.mean())


def plain_rows(logs):
    frame = logs.to_dataframe()
    episodes = {e: k for k, e in enumerate(logs.episode_labels.tolist())}
    return [{**row, "episode": episodes[row["episode_id"]]} for row in frame.iter_rows(named=True)]


def plain_problem(logs, policy, **options):
    table = {
        s: dict(zip(policy.actions.tolist(), probs, strict=True))
        for s, probs in zip(policy.states.tolist(), policy.probabilities.tolist(), strict=True)
    }
    starts = logs.state_labels[logs.initial_state].tolist()
    return PlainProblem(plain_rows(logs), starts, table, **options)


def random_log(seed, *, n_states=4, n_actions=2, n_episodes=25, rewards="graded"):
    """A log with terminations, truncations, unequal lengths and repeated transitions."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
    rows = []
    for episode in range(n_episodes):
        state = int(rng.integers(n_states))
        length = int(rng.integers(2, 9))
        for step in range(length):
            action = int(rng.integers(n_actions))
            following = int(rng.choice(n_states, p=moves[state, action]))
            reward = float(rng.integers(3)) if rewards == "graded" else float(rng.random())
            ended = bool(rng.random() < 0.15)
            rows.append(
                {
                    "episode_id": episode,
                    "step": step,
                    "state": state,
                    "action": action,
                    "reward": reward,
                    "next_state": following,
                    "terminated": ended,
                }
            )
            if ended:
                break
            state = following
    return Logs.from_dataframe(pl.DataFrame(rows))


def random_policies(seed, n, *, n_states=4, n_actions=2):
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.ones(n_actions), size=(n, n_states))
    return Policies({f"p{j}": TabularPolicy(table) for j, table in enumerate(tables)})


def bandit_log(pulls):
    """A gamma = 0 log from (arm, reward) pairs."""
    arms, rewards = zip(*pulls, strict=True)
    return Logs.from_dataframe(
        pl.DataFrame({"state": [0] * len(arms), "action": arms, "reward": rewards}),
        actions=sorted(set(arms)),
    )


def prepared(logs, policies, **options):
    return prepare_fit(logs, policies, flat_settings(**options))


def solved(found, key, **changes):
    """Posterior of every candidate of what was prepared, perhaps under other settings."""
    settings = replace(found.inputs.settings, **changes)
    return solve(found.problem, key, settings.form, settings.inference, settings.draws)


def drawn(found, solution, key, **changes):
    """Draws of all candidates, perhaps under other settings."""
    settings = replace(found.inputs.settings, **changes)
    candidates = found.inputs.candidates
    return draw(found.problem, solution, candidates, key, settings.form, settings.drawing)


def few_visits(deltas, pair_of_row, ratio, n):
    """The small-sample rule, one pair at a time; deltas are the TD errors of the transitions."""
    groups = {}
    for delta, pair in zip(deltas, pair_of_row, strict=True):
        groups.setdefault(int(pair), []).append(delta)
    scatter = {k: sum((d - sum(g) / len(g)) ** 2 for d in g) for k, g in groups.items()}
    pool = sum(scatter.values()) / sum(len(g) - 1 for g in groups.values())
    total = plain = heavy = 0.0
    for k, group in groups.items():
        visits = len(group)
        share = ratio[k] * visits / n
        s2 = (scatter[k] + 2.0 * pool) / (visits + 1)
        v = share**2 * s2 / visits
        total += v
        plain += share**2 * scatter[k] / visits**2
        heavy += v**2 / (visits + 1)
    return max(0.0, total - plain), total**2 / heavy


def numpy_tree(tree):
    return jax.tree.map(np.asarray, tree)


@pytest.fixture(scope="session")
def plain():
    """Oracles and small logs, by name."""
    return SimpleNamespace(
        problem=plain_problem,
        rows=plain_rows,
        log=random_log,
        policies=random_policies,
        bandit=bandit_log,
        prepare=prepared,
        solve=solved,
        draw=drawn,
        few_visits=few_visits,
        numpy=numpy_tree,
    )


@pytest.fixture(scope="session")
def worked_case():
    """Name -> one of the worked cases, fitted on first use."""
    return read_case
