"""On how many episodes an importance-weighted estimate rests, against loops; and who is told."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.support import warn_of_support
from bayesdice_ppl.baselines.weighting.doubly_robust import doubly_robust
from bayesdice_ppl.baselines.weighting.importance_sampling import importance_sampling
from bayesdice_ppl.baselines.weighting.marginalized import marginalized
from bayesdice_ppl.baselines.weighting.weights import all_rows, effective_episodes
from bayesdice_ppl.fitting import gauges
from tests.baselines.enumerable import (
    CANDIDATE,
    WORLDS,
    by_episode,
    discount,
    exhaustive_log,
    products,
    small_log,
)


def kish(weights):
    return sum(weights) ** 2 / sum(w**2 for w in weights)


def literal(logs, gamma, kind):
    """Step by step: the weights of those under way, and the last ones of those that ended."""
    episodes = by_episode(logs)
    rho = [products(e) for e in episodes]
    if kind == "trajectory":
        rho = [[w[-1]] * len(w) for w in rho]
    inverse = counts = 0.0
    for t in range(max(map(len, rho))):
        under_way = [w[t] for w in rho if len(w) > t]
        ended = [w[-1] for w in rho if len(w) <= t]
        share = discount(gamma, t) * sum(under_way) / (sum(under_way) + sum(ended))
        inverse += share / kish(under_way + ended)
        counts += share
    return counts / inverse


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("kind", ["per_step", "trajectory"])
@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("world", ["endless", "ending"])
def test_it_is_kish_s_number_averaged_over_the_steps(world, gamma, kind, normalized):
    logs = small_log(3, world=WORLDS[world])
    found = importance_sampling(kind, normalized=normalized).estimate(logs, CANDIDATE, gamma=gamma)
    assert found.effective_episodes == pytest.approx(literal(logs, gamma, kind), rel=1e-12)
    assert 1.0 < found.effective_episodes < 11.0


@pytest.mark.parametrize("gamma", [0.5, 1.0])
@pytest.mark.parametrize("world", ["endless", "ending"])
def test_whole_episodes_have_the_number_of_their_weights(world, gamma):
    logs = small_log(3, world=WORLDS[world])
    found = importance_sampling("trajectory").estimate(logs, CANDIDATE, gamma=gamma)
    weights = [products(e)[-1] for e in by_episode(logs)]
    assert found.effective_episodes == pytest.approx(kish(weights), rel=1e-12)
    steps = importance_sampling().estimate(logs, CANDIDATE, gamma=gamma).effective_episodes
    assert steps > found.effective_episodes


def test_a_bandit_s_rows_are_its_episodes():
    logs = small_log(1)
    ratios = [products([row])[0] for episode in by_episode(logs) for row in episode]
    for method in (importance_sampling(), importance_sampling("trajectory", normalized=False)):
        found = method.estimate(logs, CANDIDATE, gamma=0.0)
        assert found.effective_episodes == pytest.approx(kish(ratios), rel=1e-12)


@pytest.mark.parametrize("world", ["endless", "ending"])
def test_the_logging_policy_itself_has_every_episode(world):
    logs = small_log(3, world=WORLDS[world])
    rows = all_rows(logs, 0.9)
    for level in (0.0, 700.0, -700.0):
        equal = np.full(logs.n_transitions, level)
        assert effective_episodes(equal, rows, 0.9) == pytest.approx(12.0, rel=1e-9)


def test_one_heavy_episode_is_one_whatever_the_scale_and_none_is_none():
    rows = all_rows(small_log(3, world=WORLDS["endless"]), 1.0)
    heavy = np.where(rows.episode == 4, 0.0, -800.0)
    for level in (-2000.0, 0.0, 2000.0):
        assert effective_episodes(heavy + level, rows, 1.0) == pytest.approx(1.0, rel=1e-9)
    assert effective_episodes(np.full(len(heavy), -np.inf), rows, 1.0) == 0.0


def test_it_falls_with_the_length_of_the_episodes_and_with_gamma():
    logs = [small_log(2, n_episodes=60, horizon=h, world=WORLDS["endless"]) for h in (1, 10, 40)]
    found = [importance_sampling().estimate(log, CANDIDATE, gamma=1.0) for log in logs]
    numbers = [each.effective_episodes for each in found]
    assert all(before > 1.5 * after for before, after in pairwise(numbers))
    # The steps in which one episode is left are worth next to nothing at a small discount.
    early = importance_sampling().estimate(logs[-1], CANDIDATE, gamma=0.5).effective_episodes
    assert early > 0.5 * numbers[0]


def test_doubly_robust_says_it_of_its_correction_and_others_say_nothing():
    logs = exhaustive_log(WORLDS["endless"], horizon=2)
    for weighted in (False, True):
        robust = doubly_robust(weighted=weighted).estimate(logs, CANDIDATE, gamma=0.9)
        sampled = importance_sampling(normalized=weighted).estimate(logs, CANDIDATE, gamma=0.9)
        assert robust.effective_episodes == pytest.approx(sampled.effective_episodes, rel=1e-12)
    for other in (marginalized(), bd.baselines.lstdq()):
        assert other.estimate(logs, CANDIDATE, gamma=0.9).effective_episodes is None


def bandit_log(probability, n):
    """Two arms; the second is pulled, and logged with its propensity, in n rows of 200."""
    action = np.arange(200) >= 200 - n
    return bd.Logs.from_dataframe(
        pl.DataFrame(
            {
                "state": [0] * 200,
                "action": action.astype(int),
                "reward": np.arange(200) % 3 / 2.0,
                "propensity": np.where(action, probability, 1.0 - probability),
            }
        ),
        actions=[0, 1],
    )


@pytest.mark.parametrize(
    ("n", "told", "abstains"),
    [(51, False, False), (49, True, False), (11, True, False), (9, True, True)],
)
def test_few_effective_episodes_are_told_at_the_thresholds_of_a_belief(n, told, abstains):
    logs = bandit_log(0.2, n)
    # Of the arm alone, so that exactly n rows have weight, the same one.
    found = bd.baselines.estimate_all(
        "wis", logs, {"arm": bd.TabularPolicy([[0.0, 1.0]])}, gamma=0.0
    )
    assert found.table["effective_episodes"].to_list() == pytest.approx([float(n)])
    sentence = f"rests on {n:.1f} effective rows of 200, by its importance weights."
    warnings = {each["reason"]: each["abstain"] for each in warn_of_support(found)}
    assert (sentence in warnings) == told
    assert warnings.get(sentence, False) == abstains
    assert (f"arm: {sentence}" in found.support_warnings) == told
    assert (gauges.EPISODES.warns, gauges.EPISODES.abstains) == (50.0, 10.0)


def test_logs_of_vectors_are_told_too():
    rng = np.random.default_rng(0)
    action = rng.normal(size=30)
    logs = bd.Logs.from_dataframe(
        pl.DataFrame(
            {
                "obs_0": rng.normal(size=30),
                "action_0": action,
                "reward": action,
                "propensity": np.exp(-0.5 * action**2) / np.sqrt(2.0 * np.pi),
            }
        )
    )
    far = bd.GaussianPolicy(lambda obs: 0.0 * np.asarray(obs)[:, :1] + 3.0, 0.5)
    found = bd.baselines.estimate_all("wis", logs, {"far": far}, gamma=0.0)
    (warning,) = warn_of_support(found)
    assert warning["abstain"]
    assert warning["policy"] == "far"
    assert "effective rows of 30" in warning["reason"]


def test_episodes_that_are_cut_at_different_steps_never_count_less_than_one():
    # One terminates at once, and stands in for the share of the others that were cut.
    rng = np.random.default_rng(4)
    lengths = [1] * 5 + [2] * 3 + [4] * 3 + [9]
    ends = [True] + [False] * 6 + [True] + [False] * 4
    episodes = [rng.uniform(0.2, 3.0, size=length) for length in lengths]
    rows = [
        {
            "episode_id": e,
            "step": t,
            "state": 0,
            "action": 0,
            "reward": 1.0,
            "next_state": 0,
            "terminated": ends[e] and t == len(steps) - 1,
        }
        for e, steps in enumerate(episodes)
        for t in range(len(steps))
    ]
    logs = bd.Logs.from_dataframe(pl.DataFrame(rows))
    log_weight = np.log(np.concatenate([np.cumprod(steps) for steps in episodes]))
    found = effective_episodes(log_weight, all_rows(logs, 0.9), 0.9)
    inverse = counts = 0.0
    uncut = 1.0
    ended = []
    for t in range(max(lengths)):
        if t > 0:
            # Of those that were there a step before and did not terminate, what share went on.
            there = [e for e, n in enumerate(lengths) if n >= t]
            going = [e for e in there if not (ends[e] and lengths[e] == t)]
            before = uncut
            uncut *= sum(lengths[e] > t for e in going) / len(going)
            ended += [(np.prod(episodes[e]), before) for e in there if ends[e] and lengths[e] == t]
        under_way = [np.prod(episodes[e][: t + 1]) for e, n in enumerate(lengths) if n > t]
        standing = [weight * uncut / before for weight, before in ended]
        share = 0.9**t * sum(under_way) / (sum(under_way) + sum(standing))
        inverse += share / kish(under_way + standing)
        counts += share
    assert found == pytest.approx(counts / inverse, rel=1e-12)
    assert found >= 1.0


def test_the_table_has_the_column_where_there_is_such_a_number():
    logs = small_log(3)
    both = {"a": CANDIDATE, "b": CANDIDATE}
    sampled = bd.baselines.estimate_all("pdis", logs, both, gamma=0.9)
    assert sampled.table.columns == ["policy", "value", "lower", "upper", "effective_episodes"]
    assert sampled.table["effective_episodes"].n_unique() == 1
    plain = bd.baselines.estimate_all("lstdq", logs, both, gamma=0.9)
    assert plain.table.columns == ["policy", "value", "lower", "upper"]
    mixed = replace(plain, estimates=(sampled.estimates[0], plain.estimates[1]))
    assert mixed.table["effective_episodes"].null_count() == 1
