"""Policy: are propensities that do not fit, hidden reasons and states that are not Markov found.

Each kind of log breaks one thing that a belief takes for granted of its logging policy or of its
states, or breaks nothing and only looks like it. Truths are closed forms of the population.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from bayesdice_ppl.fitting import gauges
from benchmarks.promise import KINDS, Kind, World, draw, measure
from benchmarks.tables import RESULTS, write_table

TRIALS = 200
COMMAND = "python -m benchmarks policy"
OWN = (gauges.PROPENSITIES, gauges.TOGETHER, gauges.HIDDEN, gauges.PAST)
NOTES = (
    "`healthy`: whether there is nothing that these gauges are for. `all_90`, `all_mace`: coverage "
    "of 90 % intervals, and mean of |coverage - nominal| at 50, 80, 90 and 95 %, of all "
    "candidates. One column for each gauge: share of candidates that it warns of, or abstains "
    "from. `warned`, `abstained`: the same by any gauge of a belief. `kept_90`: coverage of those "
    "that are not abstained from.",
    "Every kind has eight worlds, which take turns, and three candidates. Log i of a kind is drawn "
    "by `default_rng([500 + number of the kind, 1, i])`, its world by `default_rng([500 + number "
    "of the kind, 0, i mod 8])`. Those at the end are from promise.md, drawn as there.",
)

type Make = Callable[[np.random.Generator], World]


def contexts(
    n: int,
    n_states: int,
    n_actions: int,
    *,
    told: str | None = None,
    policies: str = "one",
    drift: float = 0.0,
    hidden: float = 0.0,
) -> Make:
    """A contextual bandit in time.

    Parameters
    ----------
    n, n_states, n_actions
        Size of the log, states and actions.
    told
        Propensities of the log: ``"right"``, ``"equal"`` whatever they are, ``"stale"``: those of
        another policy, or none.
    policies
        ``"one"``; ``"days"``: another after half the rows; ``"slow"``: shares go over from one to
        the other; ``"mixed"``: one of two by chance.
    drift
        What rewards gain from the first day to the second, or along the log.
    hidden
        What rewards gain where the second of two mixed policies acts.
    """

    def make(rng: np.random.Generator) -> World:
        shape = (n_states, n_actions)
        mean = rng.normal(size=shape)
        logging = rng.dirichlet(np.full(n_actions, 2.0), size=(2, n_states))
        tables = [rng.dirichlet(np.ones(n_actions), size=n_states) for _ in range(3)]

        def play(rng: np.random.Generator) -> pl.DataFrame:
            state, when = rng.integers(n_states, size=n), np.arange(n) / n
            later = {"days": when >= 0.5, "mixed": rng.random(n) < 0.5}.get(policies, when < 0.0)
            share = when if policies == "slow" else later.astype(float)
            table = logging[0, state] * (1 - share)[:, None] + logging[1, state] * share[:, None]
            action = draw(rng, table)
            gain = drift * (when >= 0.5 if policies == "days" else when) + hidden * later
            reward = mean[state, action] + gain + rng.normal(size=n)
            frame = pl.DataFrame({"state": state, "action": action, "reward": reward})
            chance = {
                "right": np.take_along_axis(table, action[:, None], axis=1)[:, 0],
                "equal": np.full(n, 1.0 / n_actions),
                "stale": logging[1, state, action],
            }
            return frame if told is None else frame.with_columns(propensity=pl.Series(chance[told]))

        value = np.array([(table * mean).sum(axis=1).mean() for table in tables])
        return World(play, tables, value + (drift + hidden) / 2.0)

    return make


def thompson_chances(rng: np.random.Generator) -> World:
    """Four arms in three states, logged by Thompson sampling in rounds of 20, with propensities."""
    n, shape = 2_000, (3, 4)
    mean = 0.3 * rng.normal(size=shape)
    tables = [rng.dirichlet(np.ones(4), size=3) for _ in range(3)]

    def play(rng: np.random.Generator) -> pl.DataFrame:
        count, total, parts = np.zeros(shape), np.zeros(shape), []
        for _ in range(n // 20):
            noise = rng.normal(size=(400, *shape)) / np.sqrt(count + 1.0)
            best = (total / (count + 1.0) + noise).argmax(axis=2)
            share = np.stack([(best == a).mean(axis=0) for a in range(4)], axis=1)
            share = 0.05 + 0.8 * share
            state = rng.integers(3, size=20)
            action = draw(rng, share[state])
            reward = mean[state, action] + rng.normal(size=20)
            np.add.at(count, (state, action), 1.0)
            np.add.at(total, (state, action), reward)
            parts.append((state, action, reward, share[state, action]))
        names = ("state", "action", "reward", "propensity")
        columns = (np.concatenate(each) for each in zip(*parts, strict=True))
        return pl.DataFrame(dict(zip(names, columns, strict=True)))

    return World(play, tables, np.array([(t * mean).sum(axis=1).mean() for t in tables]))


def by_user(rng: np.random.Generator) -> World:
    """A hundred users in turn, each with an effect and with its own taste of actions."""
    mean = rng.normal(size=(3, 3))
    tables = [rng.dirichlet(np.ones(3), size=3) for _ in range(3)]
    logging = rng.dirichlet(np.full(3, 5.0), size=3)

    def play(rng: np.random.Generator) -> pl.DataFrame:
        user = np.repeat(np.arange(100), 20)
        share = np.stack([rng.dirichlet(6.0 * row, size=100) for row in logging], axis=1)
        state = rng.integers(3, size=2_000)
        action = draw(rng, share[user, state])
        reward = mean[state, action] + 0.7 * rng.normal(size=100)[user] + rng.normal(size=2_000)
        columns = {"state": state, "action": action, "reward": reward, "user_id": user}
        return pl.DataFrame(columns)

    return World(play, tables, np.array([(t * mean).sum(axis=1).mean() for t in tables]))


def unseen_part(n_episodes: int, n_steps: int, gamma: float, what: str) -> Make:
    """An MDP of 10 states and 3 actions of which the log does not show all.

    Parameters
    ----------
    n_episodes, n_steps, gamma
        Size of the log, and discount.
    what
        ``"late"``: a reward comes one step after what earned it; ``"late 2"``: two steps;
        ``"alias"``: two states of twenty look like one; ``"mood"``: a hidden mood follows the
        actions and adds to the rewards; ``"type"``: episodes are of two types that move otherwise,
        and pay otherwise.
    """
    n_actions = 3

    def make(rng: np.random.Generator) -> World:
        size = 20 if what == "alias" else 10
        move = rng.dirichlet(np.full(size, 0.5), size=(size, n_actions))
        mean = rng.normal(size=(size, n_actions))
        # The full state is (part, state); `shown` is what the log has of it.
        late = what.startswith("late")
        parts = 2 if what in ("mood", "type") else 1
        full = size * parts
        shown = np.arange(full) % (10 if what == "alias" else size)
        chain = np.zeros((full, n_actions, full))
        pays = np.zeros((full, n_actions))
        other = rng.dirichlet(np.full(size, 0.5), size=(size, n_actions))
        up = rng.uniform(0.05, 0.5, size=n_actions) * np.array([0.2, 1.0, 1.0])
        for part in range(parts):
            rows = slice(part * size, (part + 1) * size)
            pays[rows] = mean + (1.5 * part if what == "mood" else 0.0)
            if what == "type":
                chain[rows, :, rows] = (move, other)[part]
                pays[rows] = mean + rng.normal(size=mean.shape)
            elif what == "mood":
                on = np.array([up, 1.0 - 0.3 * np.ones(n_actions)])[part]
                chain[rows, :, :size] = move * (1.0 - on)[None, :, None]
                chain[rows, :, size:] = move * on[None, :, None]
            else:
                chain[rows, :, rows] = move
        logging = rng.dirichlet(np.full(n_actions, 5.0), size=10)
        tables = [rng.dirichlet(np.ones(n_actions), size=10) for _ in range(3)]
        first = np.zeros(full)
        first[: full if what in ("type", "alias") else size] = 1.0
        first /= first.sum()
        truth = []
        for table in tables:
            own = table[shown]
            steps = np.einsum("sa,sat->st", own, chain)
            visits = np.linalg.solve(np.eye(full) - gamma * steps.T, (1.0 - gamma) * first)
            value = float(visits @ (own * pays).sum(axis=1))
            truth.append(value * (gamma ** (1 + what.endswith("2")) if late else 1.0))

        def play(rng: np.random.Generator) -> pl.DataFrame:
            state = draw(rng, np.broadcast_to(first, (n_episodes, full)))
            due, columns = [np.zeros(n_episodes)] * 2, []
            for step in range(n_steps):
                action = draw(rng, logging[shown[state]])
                earned = pays[state, action]
                paid = {"late": due[0], "late 2": due[1]}.get(what, earned)
                due = [earned, due[0]]
                following = draw(rng, chain[state, action])
                reward = paid + rng.normal(size=n_episodes)
                places = (np.arange(n_episodes), np.full(n_episodes, step))
                columns.append((*places, shown[state], action, reward, shown[following]))
                state = following
            names = ("episode_id", "step", "state", "action", "reward", "next_state")
            whole = (np.concatenate(each) for each in zip(*columns, strict=True))
            return pl.DataFrame(dict(zip(names, whole, strict=True)))

        return World(play, tables, np.array(truth))

    return make


OWN_KINDS = (
    Kind(
        "bandit 3 x 3, n 2,000, right propensities", 0.0, contexts(2_000, 3, 3, told="right"), True
    ),
    Kind(
        "bandit 20 x 8, n 5,000, right propensities",
        0.0,
        contexts(5_000, 20, 8, told="right"),
        True,
    ),
    Kind("bandit 20 x 8, n 200, right propensities", 0.0, contexts(200, 20, 8, told="right"), True),
    Kind("bandit 3 x 3, n 2,000, propensities 1/3", 0.0, contexts(2_000, 3, 3, told="equal")),
    Kind("bandit 20 x 8, n 5,000, propensities 1/8", 0.0, contexts(5_000, 20, 8, told="equal")),
    Kind(
        "bandit 3 x 3, n 200, another policy's propensities", 0.0, contexts(200, 3, 3, told="stale")
    ),
    Kind("bandit 3 x 4, Thompson sampling with propensities", 0.0, thompson_chances, True),
    Kind(
        "bandit 3 x 3, two policies mixed, right propensities",
        0.0,
        contexts(2_000, 3, 3, told="right", policies="mixed"),
        True,
    ),
    Kind(
        "bandit 3 x 3, mixed by a hidden reason that pays 1, propensities",
        0.0,
        contexts(2_000, 3, 3, told="right", policies="mixed", hidden=1.0),
    ),
    Kind(
        "bandit 3 x 3, policy changes between days",
        0.0,
        contexts(2_000, 3, 3, policies="days"),
        True,
    ),
    Kind("bandit 3 x 3, rewards gain 1 along the log", 0.0, contexts(2_000, 3, 3, drift=1.0), True),
    Kind(
        "bandit 3 x 3, policy and rewards change between days, gain 1",
        0.0,
        contexts(2_000, 3, 3, policies="days", drift=1.0),
    ),
    Kind(
        "bandit 3 x 3, policy and rewards drift along the log, gain 2",
        0.0,
        contexts(2_000, 3, 3, policies="slow", drift=2.0),
    ),
    Kind(
        "bandit 20 x 8, n 5,000, policy and rewards change between days, gain 1",
        0.0,
        contexts(5_000, 20, 8, policies="days", drift=1.0),
    ),
    Kind(
        "bandit 3 x 3, policy and rewards change between days, gain 0.3",
        0.0,
        contexts(2_000, 3, 3, policies="days", drift=0.3),
    ),
    Kind("bandit 3 x 3, users with tastes and effects", 0.0, by_user, True),
    Kind("MDP, gamma 0.9, n 5,000, rewards a step late", 0.9, unseen_part(125, 40, 0.9, "late")),
    Kind(
        "MDP, gamma 0.9, n 5,000, rewards two steps late", 0.9, unseen_part(125, 40, 0.9, "late 2")
    ),
    Kind(
        "MDP, gamma 0.9, n 5,000, two states look like one", 0.9, unseen_part(125, 40, 0.9, "alias")
    ),
    Kind("MDP, gamma 0.9, n 5,000, hidden mood", 0.9, unseen_part(125, 40, 0.9, "mood")),
    Kind("MDP, gamma 0.9, n 5,000, two types of episodes", 0.9, unseen_part(125, 40, 0.9, "type")),
)


def main(trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Measure every kind and write the table."""
    own = [(500 + number, kind) for number, kind in enumerate(OWN_KINDS)]
    shared = [(number, kind) for number, kind in enumerate(KINDS) if kind.healthy or number < 2]
    rows = []
    for number, kind in (*own, *shared):
        row, shares = measure(number, kind, trials)
        rows.append(
            {
                "kind": kind.name,
                "healthy": number < 100 or kind.healthy,
                "logs": trials,
                "all_90": row["all_90"],
                "all_mace": row["all_mace"],
                **{gauge.name: shares.get(gauge.name, 0.0) for gauge in OWN},
                "warned": row["warned"],
                "abstained": row["abstained"],
                "kept_90": row["cov_90"],
            }
        )
        print(rows[-1], flush=True)
    command = COMMAND if trials == TRIALS else f"{COMMAND} --trials {trials}"
    print(write_table("policy", rows, command=command, notes=NOTES, folder=folder))
