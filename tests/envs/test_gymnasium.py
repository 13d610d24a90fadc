"""The worlds as Gymnasium sees them: checker, names, seeds, wrappers."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.stats import binomtest

import bayesdice_ppl.envs as envs
from bayesdice_ppl.errors import EnvironmentSpecError

TABLES = ("Bandit", "InfiniteFrozenLake", "Garnet", "ContextualBandit", "RiverSwim", "InfiniteTaxi")
NAMES = (*TABLES, "InfiniteCartPole", "InfiniteReacher")
IDS = [f"bayesdice_ppl.envs:bayesdice/{name}-v0" for name in NAMES]


def play(env, seed, n_steps=300):
    """First observation and steps, as nested lists that can be compared."""
    env.action_space.seed(7)
    start, _ = env.reset(seed=seed)
    steps = []
    for _ in range(n_steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        steps.append((np.asarray(observation).tolist(), reward, terminated, truncated))
        if truncated:
            observation, _ = env.reset()
            steps.append(np.asarray(observation).tolist())
    return [np.asarray(start).tolist(), *steps]


# A world that is a wrapper is checked as what it is, and Gymnasium remarks on that; it also
# remarks on the infinite bounds that CartPole and Reacher have in Gymnasium too.
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version:UserWarning")
@pytest.mark.filterwarnings("ignore:.*A Box observation space m:UserWarning")
@pytest.mark.filterwarnings("ignore:.*normalized space:UserWarning")
@pytest.mark.parametrize("name", IDS)
def test_passes_gymnasiums_checker(name):
    """The checker asserts by itself."""
    made = gymnasium.make(name)
    # Games that draw do so with pygame or OpenGL, which are not ours to require.
    draws = "Infinite" in name
    check_env(made if draws else made.unwrapped, skip_render_check=draws)


def test_the_registered_names_are_all_checked_here():
    known = {name for name in gymnasium.registry if name.startswith("bayesdice/")}
    assert known == {name.split(":")[1] for name in IDS}


@pytest.mark.parametrize("name", IDS)
def test_the_seed_of_reset_fixes_the_whole_run(name):
    first, second = gymnasium.make(name), gymnasium.make(name)
    assert play(first, 5) == play(second, 5)
    assert play(first, 5) != play(second, 6)


@pytest.mark.parametrize("name", IDS)
def test_never_terminates_and_never_truncates(name):
    env = gymnasium.make(name)
    while isinstance(env, gymnasium.wrappers.TimeLimit):
        env = env.env
    steps = play(env, 0, n_steps=2000)[1:]
    assert not any(terminated or truncated for _, _, terminated, truncated in steps)


def test_reacher_is_cut_after_the_papers_hundred_steps():
    env = gymnasium.make(IDS[-1])
    env.reset(seed=0)
    cuts = [env.step(np.zeros(2))[3] for _ in range(100)]
    assert cuts == [False] * 99 + [True]


@pytest.mark.parametrize("name", IDS)
def test_can_be_made_again_from_its_own_spec(name):
    env = gymnasium.make(name)
    assert play(gymnasium.make(env.spec), 1) == play(env, 1)


def test_registering_again_changes_nothing():
    from bayesdice_ppl.envs.registration import register_worlds

    before = dict(gymnasium.registry)
    register_worlds()
    assert gymnasium.registry == before


def test_make_passes_arguments_on():
    assert gymnasium.make(IDS[0], arms=(0.1, 0.2, 0.3)).action_space.n == 3
    assert gymnasium.make(IDS[1], map_name="8x8").observation_space.n == 64
    assert gymnasium.make(IDS[2], seed=3, n_states=7).observation_space.n == 7
    assert gymnasium.make(IDS[4], n_states=9).observation_space.n == 9
    assert gymnasium.make(IDS[7], restart_probability=0.5).get_wrapper_attr("probability") == 0.5


def test_restart_of_a_game_that_is_no_table():
    env = envs.Restart(gymnasium.make("CartPole-v1"))
    env.reset(seed=0)
    n_restarts = 0
    for _ in range(200):
        observation, reward, terminated, _, info = env.step(0)
        assert not terminated
        assert reward == 1.0
        n_restarts += info["restarted"]
        if info["restarted"]:
            # Ours is the fresh start; the end of the fallen pole is kept aside.
            assert np.all(np.abs(observation) <= 0.05)
            assert abs(info["final_observation"][2]) > 0.2
    assert n_restarts > 10
    with pytest.raises(EnvironmentSpecError, match="not a tabular world"):
        _ = env.outcomes


def test_restart_by_chance_is_as_frequent_as_it_was_told():
    n_steps = 20_000
    for chance in (0.03, 0.5):
        env = envs.Restart(envs.RiverSwim(), probability=chance)
        env.reset(seed=3)
        # Drifting left from the left bank never leaves it, so that nothing else is drawn.
        n_restarts = sum(env.step(0)[4]["restarted"] for _ in range(n_steps))
        assert binomtest(n_restarts, n_steps, chance).pvalue > 1e-4
    with pytest.raises(EnvironmentSpecError, match=r"probability.*\[0, 1\), found 1"):
        envs.Restart(envs.RiverSwim(), probability=1)


def test_tables_are_read_through_harmless_wrappers_only():
    bandit = envs.Bandit()
    limited = gymnasium.wrappers.TimeLimit(bandit, max_episode_steps=5)
    assert envs.as_tabular(limited) is bandit
    assert envs.as_tabular(gymnasium.make(IDS[1])).outcomes.probability.shape[:2] == (16, 4)
    doubled = gymnasium.wrappers.TransformReward(bandit, lambda reward: 2 * reward)
    with pytest.raises(EnvironmentSpecError, match="TransformReward"):
        envs.as_tabular(doubled)
    with pytest.raises(EnvironmentSpecError, match="Restart"):
        envs.as_tabular(gymnasium.make("FrozenLake-v1"))


def test_worlds_without_a_picture_refuse_to_draw():
    with pytest.raises(EnvironmentSpecError, match="render_mode"):
        envs.Bandit(render_mode="human")
