"""Averages of beliefs: moments of the mixture, whole draws, and every warning kept."""

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView, SupportWarning, make_belief
from bayesdice_ppl.errors import BayesDiceError

KEY = jax.random.key(0)


def belief(seed, names=("a", "b"), **known):
    rng = np.random.default_rng(seed)
    return make_belief(rng.normal(seed, 1.0 + seed, size=(1000, len(names))), names, **known)


def test_moments_are_those_of_the_mixture():
    parts = {"one": belief(1), "two": belief(2)}
    mixed = bd.stack(parts, {"one": 0.25, "two": 0.75}, rng_key=KEY)["posterior/value"].values[0]
    assert mixed.shape == (1000, 2)
    both = [each["posterior/value"].values[0] for each in parts.values()]
    # Of each belief a simple random sample without replacement of its draws.
    mean = 0.25 * both[0].mean(axis=0) + 0.75 * both[1].mean(axis=0)
    error = [w * x.std(axis=0) / np.sqrt(1000 * w) for w, x in zip((0.25, 0.75), both, strict=True)]
    assert np.all(np.abs(mixed.mean(axis=0) - mean) < 5 * np.sqrt(error[0] ** 2 + error[1] ** 2))


def test_draws_are_whole_and_as_many_of_each_belief_as_its_weight():
    parts = {"one": belief(1), "two": belief(2, names=("b", "a"))}
    mixed = bd.stack(parts, {"one": 0.4, "two": 0.6}, rng_key=KEY)["posterior/value"]
    ours = {tuple(row) for row in mixed.sel(policy=["a", "b"]).values[0].tolist()}
    for name, count in (("one", 400), ("two", 600)):
        theirs = parts[name]["posterior/value"].sel(policy=["a", "b"]).values[0].tolist()
        assert len(ours & {tuple(row) for row in theirs}) == count


def test_all_of_the_weight_on_one_is_that_belief():
    parts = {"one": belief(1), "two": belief(2)}
    mixed = bd.stack(parts, {"one": 0.0, "two": 1.0}, rng_key=KEY)["posterior/value"].values
    np.testing.assert_array_equal(
        np.sort(mixed, axis=1), np.sort(parts["two"]["posterior/value"].values, axis=1)
    )


def test_warnings_of_beliefs_of_some_weight_are_kept_and_the_average_says_what_it_is():
    warned = belief(1, support_warnings=[SupportWarning("a", "was never seen.", True)])
    sound = belief(2, support_warnings=[])
    mixed = bd.stack({"one": warned, "two": sound}, {"one": 0.1, "two": 0.9}, rng_key=KEY)
    (found,) = BeliefView(mixed).support_warnings
    assert (found.policy, found.abstain) == ("a", True)
    assert found.reason == "was never seen. (in one)"
    assert "one 0.1, two 0.9" in BeliefView(mixed).notes[0]
    alone = bd.stack({"one": warned, "two": sound}, {"one": 0.0, "two": 1.0}, rng_key=KEY)
    assert BeliefView(alone).support_warnings == ()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"one": 0.5}, "a weight for each"),
        ({"one": 0.5, "two": 0.4}, "sum to 1"),
        ({"one": 1.5, "two": -0.5}, "at least 0"),
    ],
)
def test_wrong_weights_are_refused(weights, message):
    with pytest.raises(BayesDiceError, match=message):
        bd.stack({"one": belief(1), "two": belief(2)}, weights, rng_key=KEY)


def test_other_candidates_are_refused():
    parts = {"one": belief(1), "two": belief(2, names=("a", "c"))}
    with pytest.raises(BayesDiceError, match="the same candidates"):
        bd.stack(parts, {"one": 0.5, "two": 0.5}, rng_key=KEY)


def test_of_several_rewards_the_first_is_averaged_and_others_are_no_match():
    first = belief(1, rewards=["quality", "cost"])
    same, other = belief(2, rewards=["quality", "price"]), belief(2, rewards=["cost", "quality"])
    half = {"one": 0.5, "two": 0.5}
    mixed = bd.stack({"one": first, "two": same}, half, rng_key=KEY)
    assert "of quality, cost it is of quality alone" in BeliefView(mixed).notes[0]
    with pytest.raises(BayesDiceError, match="mean of quality in 'one' and mean of cost in 'two'"):
        bd.stack({"one": first, "two": other}, half, rng_key=KEY)
