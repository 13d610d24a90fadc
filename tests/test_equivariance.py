"""Laws that every method keeps: what is no fact about the world changes nothing but what it must.

Rewards in another unit, from another zero: values, intervals and draws move with them. Names, and
the order of rows and of tables: values keep to their names. A method or an engine is under these
laws by being registered. Where a definition stands against a law, the test has the amount by which
it breaks, in closed form.

Most moves are by powers of two that leave the rewards exact. All that may then differ is the last
addition that brings a value back, so that four units in the last place of the largest number are
the tolerance: of a value, a scale, a center and an origin.
"""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.dice.coin_dice import STANDSTILL
from bayesdice_ppl.baselines.dice.interior_point import GAP
from bayesdice_ppl.baselines.registry import METHODS, every_name, settings_of
from bayesdice_ppl.baselines.value.fitted_q import TOLERANCE
from bayesdice_ppl.errors import BayesDiceError
from tests.marks import slow
from tests.moved_rewards import (
    ACTIONS,
    EPS,
    KEY,
    MOVES,
    STATES,
    TARGETS,
    TINY_AND_FAR,
    frame_of,
    moved,
    renamed,
    tabled,
)

FEW = {"refits": 4, "steps": 5, "width": 8, "draws": 200, "resamples": 500}
"""Settings that set the cost of a method, for those that have them."""
NETWORKS = {"fqe_mlp", "bdqn"}


class Softmax:
    """A policy of three labeled actions over vectors."""

    def __init__(self, slope):
        self.slope = np.asarray(slope)

    def probs(self, obs):
        scores = np.exp(np.asarray(obs) @ self.slope)
        return scores / scores.sum(axis=1, keepdims=True)


def policies_of(base):
    if base == "mwl_kernel":
        return {
            "bold": Softmax([[1.0, 0, 0], [0, 1.0, 0]]),
            "calm": Softmax([[0, 0.5, 0], [0, 0, 1]]),
        }
    return {name: bd.TabularPolicy(table) for name, table in TARGETS.items()}


def log_of(base, **shape):
    return frame_of(two=base == "beta", vectors=base == "mwl_kernel", **shape)


def made(name, **settings):
    few = {k: v for k, v in FEW.items() if k in settings_of(name)}
    return bd.baselines.make(name, **few, **settings)


def ask(name, frame, gamma, on_termination="restart", policies=None, **settings):
    """What a method says of every candidate; its refusal where it has no answer."""
    try:
        return bd.baselines.estimate_all(
            made(name, **settings),
            bd.Logs.from_dataframe(frame),
            policies_of(name.partition(":")[0]) if policies is None else policies,
            gamma=gamma,
            rng_key=KEY,
            on_termination=on_termination,
        )
    except BayesDiceError as refusal:
        return str(refusal)


def numbers(found, name):
    """Value, ends and draws of one candidate."""
    one = found.estimates[found.names.index(name)]
    parts = [[one.value], [] if one.lower is None else [one.lower, one.upper]]
    return np.concatenate([*parts, [] if one.draws is None else one.draws])


def check_moved(before, after, factor, constant, tolerance):
    """Everything that a method says has moved as the rewards have."""
    if isinstance(before, str):
        assert after == before
        return
    for name in before.names:
        np.testing.assert_allclose(
            numbers(after, name),
            factor * numbers(before, name) + constant,
            rtol=0.0,
            atol=tolerance,
        )
    assert after.order() == before.order()
    assert len(after.support_warnings) == len(before.support_warnings)


def last_places(factor, constant, *found):
    """Four units in the last place of the largest number at hand."""
    largest = max(np.abs(numbers(one, name)).max() for one in found for name in one.names)
    return 4 * EPS * max(factor + abs(constant), factor * largest + abs(constant))


# Of these a constant passes through the importance weights, whose mean is not one.
PLAIN = ("is", "pdis")


def keeps_constants(name, gamma, frame):
    """Whether a constant is known without weights: plain ones are divided by nothing estimated."""
    plain = name.partition(":")[0] in PLAIN
    return not plain or (gamma > 0.0 and bool(frame["terminated"].any()))


@pytest.mark.parametrize("move", [TINY_AND_FAR, *map(slow, MOVES)], ids=str)
@pytest.mark.parametrize("name", every_name())
def test_values_move_with_the_rewards(name, move):
    frame = log_of(name.partition(":")[0])
    for gamma in (0.9,) if ":" in name else (0.9, 0.0, 1.0):
        known = keeps_constants(name, gamma, frame)
        factor, constant = move if known else (move[0], 0.0)
        before = ask(name, frame, gamma)
        after = ask(name, moved(frame, factor, constant), gamma)
        tolerance = 0.0 if isinstance(before, str) else last_places(factor, constant, before)
        check_moved(before, after, factor, constant, tolerance)


DIRECT = 1e-11
"""Rounding of methods that solve a system: eps times a condition number that is below 1e4 here."""
STOPS = {
    "coin_dice": STANDSTILL,
    "gen_dice": GAP / EPS * DIRECT,
    "best_dice": GAP / EPS * DIRECT,
    "fqe": TOLERANCE / EPS * DIRECT,
}
"""Where methods stop before rounding, in spreads: their own tolerance, times the same number."""


@pytest.mark.parametrize("name", [each for each in METHODS if each not in NETWORKS])
def test_so_they_do_where_rewards_lose_digits(name):
    # Rewards that are rounded stand for others, which exact arithmetic brings back. What is lost
    # is lost by the rewards, and no method loses more.
    factor, constant = 3.7, -9.1e8
    frame = log_of(name)
    far = moved(frame, factor, constant if name not in PLAIN else 0.0)
    constant = constant if name not in PLAIN else 0.0
    back = [float((Fraction(r) - Fraction(constant)) / Fraction(factor)) for r in far["reward"]]
    before = ask(name, frame.with_columns(reward=pl.Series(back)), 0.9)
    after = ask(name, far, 0.9)
    if isinstance(before, str):
        assert after == before
        return
    tolerance = factor * STOPS.get(name, DIRECT) + last_places(factor, constant, before)
    check_moved(before, after, factor, constant, tolerance)


def loop_over_weights(frame, target, gamma, kind):
    """Value by plain importance sampling, and the mean of what it weighs a constant by."""
    total, counted, episodes = 0.0, 0.0, frame.partition_by("episode_id", maintain_order=True)
    for episode in episodes if gamma > 0.0 else list(frame.iter_slices(1)):
        rho, discount, parts, share = 1.0, 1.0, [], 0.0
        for row in episode.iter_rows(named=True):
            rho *= target[row["state"], row["action"]] / row["propensity"]
            parts.append((discount, rho, row["reward"]))
            share += discount
            discount *= gamma
        weighed = [(c, rho if kind == "is" else r, reward) for c, r, reward in parts]
        total += sum(c * r * reward for c, r, reward in weighed) / share
        counted += sum(c * r for c, r, _ in weighed) / share
    count = len(episodes) if gamma > 0.0 else len(frame)
    return total / count, counted / count


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("name", PLAIN)
def test_plain_weights_count_a_constant_as_often_as_they_say(name, gamma):
    frame, constant = log_of(name, ends=False), 2.0**20
    before, after = ask(name, frame, gamma), ask(name, moved(frame, 1.0, constant), gamma)
    for each, target in TARGETS.items():
        value, weight = loop_over_weights(frame, target, gamma, name)
        assert numbers(before, each)[0] == pytest.approx(value, rel=1e-12)
        assert numbers(after, each)[0] == pytest.approx(value + constant * weight, rel=1e-12)
        assert abs(weight - 1.0) > 1e-3


# Methods whose ratio, or network, follows the rewards; where zero has a meaning they are in no
# closed form.
CURVED = {*NETWORKS, "best_dice", "lagrangian_dice", "mql"}


@pytest.mark.parametrize("name", METHODS)
def test_where_an_end_is_worth_zero_a_constant_counts_until_then(name):
    # The world itself is another one: after an end nothing is earned. A constant adds in
    # proportion, and less than itself. A factor is a factor as ever.
    frame, factor = log_of(name), 2.0**27
    before = ask(name, frame, 0.9, "absorb")
    if isinstance(before, str):
        assert ask(name, moved(frame, factor, 0.0), 0.9, "absorb") == before
        return
    scaled = ask(name, moved(frame, factor, 0.0), 0.9, "absorb")
    tolerance = last_places(factor, 0.0, before)
    if name in NETWORKS:
        # Their zero is the rewards' mean, so that zero is brought back too.
        tolerance *= 4
    check_moved(before, scaled, factor, 0.0, tolerance)
    if name in CURVED:
        return
    values = np.array(
        [
            [
                numbers(ask(name, moved(frame, 1.0, d), 0.9, "absorb"), each)[0]
                for d in (0.0, 8.0, 16.0)
            ]
            for each in before.names
        ]
    )
    first, second = np.diff(values).T
    np.testing.assert_allclose(second, first, rtol=1e-8)
    assert name in PLAIN or np.all(first < 8.0 * 0.99)


EQUAL = [0.1, 1e8, -1e-8, 0.0]


@pytest.mark.parametrize("reward", EQUAL)
@pytest.mark.parametrize("name", METHODS)
def test_equal_rewards_are_the_value(name, reward):
    frame = log_of(name).with_columns(reward=pl.lit(reward))
    for gamma in (0.9, 0.0):
        found = ask(name, frame, gamma)
        if isinstance(found, str) or not keeps_constants(name, gamma, frame):
            continue
        for each in found.names:
            np.testing.assert_allclose(numbers(found, each), reward, rtol=4 * EPS)


@pytest.mark.parametrize("name", [each for each in METHODS if each not in PLAIN])
def test_they_move_on_few_rows_too(name):
    frame = log_of(name).filter(pl.col("episode_id") < 2)
    for gamma in (0.9, 0.0):
        before = ask(name, frame, gamma)
        after = ask(name, moved(frame, *TINY_AND_FAR), gamma)
        tolerance = 0.0 if isinstance(before, str) else last_places(*TINY_AND_FAR, before)
        check_moved(before, after, *TINY_AND_FAR, tolerance)


# Names and order. Strings in the other order, states and actions under other codes; episodes that
# first appear elsewhere; rows of all episodes mixed; candidates in the other order.


HALVED = [each for each in METHODS if "cross_fit" in settings_of(each)]
LABELED = [each for each in METHODS if each != "mwl_kernel"]


@pytest.mark.parametrize("name", [each for each in LABELED if each not in NETWORKS])
def test_values_keep_to_their_names(name):
    frame = log_of(name)
    other, policies = renamed(frame)
    for gamma in (0.9, 0.0, 1.0):
        # Halves of the episodes are those with even and with odd numbers: see the next test.
        whole = {"cross_fit": False} if name in HALVED else {}
        before = ask(name, frame, gamma, policies=tabled(STATES, ACTIONS, TARGETS), **whole)
        after = ask(name, other, gamma, policies=policies, **whole)
        if isinstance(before, str):
            assert isinstance(after, str)
            continue
        assert sorted(after.names) == sorted(before.names)
        for each in before.names:
            one, two = numbers(before, each), numbers(after, each)
            tolerance = np.full(len(one), STOPS.get(name, 1e-9))
            if made(name).gives == "draws":
                # Other units are drawn first, so draws are others of the same belief: means within
                # five of their standard errors, ends as quantiles of a normal, whose density there
                # makes them 2.2 times as uncertain.
                one, two, draws = one[:3], two[:3], one[3:]
                exact = 1e-9 if name == "beta" else 5 * np.sqrt(2 / len(draws)) * draws.std()
                ends = 2.2 * 5 * np.sqrt(2 / len(draws)) * draws.std()
                tolerance = np.array([exact, ends, ends])
            assert np.all(np.abs(two - one) <= tolerance)


@pytest.mark.parametrize("name", HALVED)
def test_halves_of_the_episodes_are_all_that_their_order_decides(name):
    # A cross-fitted method needs two halves, and takes every second episode as they come. Any order
    # that leaves each half together is the same, and one that does not is another split.
    frame = frame_of()
    even, odd = np.arange(0, 30, 2), np.arange(1, 30, 2)
    within = np.stack([even[::-1], np.roll(odd, 4)], axis=1).ravel()
    swapped = np.stack([odd, even], axis=1).ravel()
    across = np.r_[even, odd]
    before, *others = (
        ask(name, pl.concat([frame.filter(pl.col("episode_id") == k) for k in order]), 0.9)
        for order in (range(30), within, swapped, across)
    )
    for each in before.names:
        same, too, other = (numbers(found, each) for found in others)
        np.testing.assert_allclose(same, numbers(before, each), atol=1e-9)
        np.testing.assert_allclose(too, numbers(before, each), atol=1e-9)
        assert abs(other - numbers(before, each))[0] > 1e-6


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_a_network_knows_states_by_their_order_alone(name):
    # Weights are drawn state by state and rows one by one, so another order trains another network.
    frame = frame_of()
    labels, names = pl.Series([f"s{s}" for s in STATES]), pl.Series(["ask", "mute", "zoom"])
    other = frame.with_columns(
        episode_id=pl.col("episode_id") + 7,
        state=labels[frame["state"]],
        next_state=labels[frame["next_state"]],
        action=names[frame["action"]],
    )
    before = ask(name, frame, 0.9)
    after = ask(name, other, 0.9, policies=tabled(labels, names, reversed(TARGETS)))
    for each in before.names:
        np.testing.assert_array_equal(numbers(after, each), numbers(before, each))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_two_files_are_one_log(name, tmp_path):
    frame = log_of(name)
    parts = [frame.filter(pl.col("episode_id") < 11), frame.filter(pl.col("episode_id") >= 11)]
    for k, part in enumerate(parts):
        part.write_parquet(tmp_path / f"{k}.parquet")
    both = pl.concat([pl.read_parquet(tmp_path / f"{k}.parquet") for k in range(2)])
    for gamma in (0.9, 0.0):
        before, after = ask(name, frame, gamma), ask(name, both, gamma)
        check_moved(before, after, 1.0, 0.0, 0.0)
