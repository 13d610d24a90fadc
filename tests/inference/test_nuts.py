"""NUTS against the closed form, and SVI against NUTS where there is no closed form."""

import jax
import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size

import bayesdice_ppl as bd
from bayesdice_ppl import penalties, surrogates
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.fitting import flat_settings
from bayesdice_ppl.inference import Nuts
from bayesdice_ppl.simulation import make_world
from tests.marks import slow

KEY = jax.random.key(3)


def small_world(name="garnet"):
    sizes = {"n_states": 6, "n_actions": 2} if name == "garnet" else {}
    world = make_world(name, alpha=0.3, candidates=(0.6, 0.9), **sizes)
    logs = bd.simulate(world.env, world.behavior, 60, 50, rng_key=jax.random.key(0))
    return logs, world.candidates


def solved(plain, name, inference, gamma=0.9, **given):
    prepared = plain.prepare(*small_world(name), gamma=gamma, inference=inference, **given)
    return plain.solve(prepared, KEY)


def sd_of(solution):
    return np.sqrt(np.sum(np.asarray(solution.posterior.factor)[:, -1] ** 2, axis=-1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gamma", "given"),
    [
        ("garnet", 0.9, {}),
        ("garnet", 1.0, {}),
        pytest.param("garnet", 0.9, {"preset": "paper"}, marks=pytest.mark.slow),
        pytest.param("garnet", 0.9, {"value_constraint": False}, marks=pytest.mark.slow),
        ("bandit", 0.0, {}),
    ],
    ids=["garnet", "average", "paper", "no_value_constraint", "bandit"],
)
def test_nuts_agrees_with_the_closed_form(plain, name, gamma, given):
    sampled = solved(plain, name, "nuts", gamma, **given)
    exact = solved(plain, name, "exact", gamma, **given)
    mean = np.asarray(exact.posterior.mean)
    sd = np.sqrt(np.sum(np.asarray(exact.posterior.factor) ** 2, axis=-1))
    draws = sampled.sampled
    assert draws.shape == (2, 4, 1000, mean.shape[1])
    assert sampled.diverging.max() == 0.0
    for j in range(2):
        # An exact constraint leaves a direction without spread, which Monte Carlo cannot judge.
        free = sd[j] > 1e-9 * np.abs(mean[j]).max()
        effective = np.array(
            [effective_sample_size(draws[j, :, :, k]) for k in np.flatnonzero(free)]
        )
        effective = np.minimum(effective, 4000)
        off = (draws[j].mean(axis=(0, 1)) - mean[j])[free] / sd[j][free]
        assert np.all(np.abs(off) <= 5 / np.sqrt(effective))
        spread = draws[j].std(axis=(0, 1), ddof=1)[free] / sd[j][free]
        # The squares mix more slowly than the draws: a Gaussian's sd has error sqrt(1 / 2 n).
        squares = np.array(
            [
                effective_sample_size((draws[j, :, :, k] - mean[j, k]) ** 2)
                for k in np.flatnonzero(free)
            ]
        )
        assert np.all(np.abs(spread - 1) <= 5 / np.sqrt(2 * np.minimum(squares, 4000)))


FORMS = {
    # A tighter bound makes tails that no Gaussian has: 5 % at 0.03, 7 % at 0.01.
    "huber": {"penalty": penalties.huber(0.05)},
    "power": {"penalty": penalties.power(1.5)},
    "softplus": {"link": "softplus"},
    "cvar": {"surrogate": surrogates.cvar(0.3)},
    "bernstein": {"surrogate": surrogates.bernstein(1.0)},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_svi_is_within_five_percent_of_nuts(plain, form):
    engine = Nuts(target_accept=0.97) if form == "softplus" else Nuts()
    # Of 4,000 draws the judge's own sd has an error of 1.5 %; of these 0.5 %.
    judge = solved(plain, "garnet", engine, draws=32_000, **FORMS[form])
    found = solved(plain, "garnet", "svi", **FORMS[form])
    assert judge.diverging.max() < 0.01
    np.testing.assert_allclose(sd_of(found), sd_of(judge), rtol=0.05)
    off = (np.asarray(found.posterior.mean) - np.asarray(judge.posterior.mean))[:, -1]
    assert np.all(np.abs(off) <= 0.1 * sd_of(judge))


@pytest.mark.slow
def test_a_softplus_ratio_is_never_negative():
    logs, candidates = small_world()
    belief = bd.fit(logs, candidates, gamma=0.9, rng_key=KEY, model=bd.models.linear("softplus"))
    assert belief["posterior/weights"].values.min() >= 0.0
    plain = bd.fit(logs, candidates, gamma=0.9, rng_key=KEY, inference="exact")
    assert plain["posterior/weights"].values.min() < 0.0
    # Where no ratio is near zero in sds, the link changes little.
    both = [b["constant_data/guide_mean"].values for b in (belief, plain)]
    np.testing.assert_allclose(*both, atol=0.2 * plain["constant_data/guide_sd"].values.min())


def test_a_belief_from_nuts_has_its_chains_and_says_how_they_mixed():
    logs, candidates = small_world()
    belief = bd.fit(
        logs, candidates, gamma=0.9, rng_key=KEY, inference=Nuts(chains=2, warmup=300), draws=800
    )
    assert belief["posterior/value"].shape == (2, 400, 2)
    assert belief["posterior/weights"].dims[:2] == ("chain", "draw")
    known = belief["constant_data"]
    assert np.all(known["r_hat"].values < 1.05)
    assert np.all(known["effective_draws"].values > 100)
    choice = bd.select(belief, bd.scores.regret(1))
    assert set(choice.order) == set(candidates)
    same = bd.fit(
        logs, candidates, gamma=0.9, rng_key=KEY, inference=Nuts(chains=2, warmup=300), draws=800
    )
    np.testing.assert_array_equal(belief["posterior/value"], same["posterior/value"])


@pytest.mark.slow
def test_too_short_a_run_is_said_and_its_draws_are_shared_out_among_the_chains():
    logs, candidates = small_world()
    belief = bd.fit(
        logs, candidates, gamma=0.9, rng_key=KEY, inference=Nuts(chains=2, warmup=2), draws=9
    )
    assert belief["posterior/value"].shape == (2, 4, 2)  # the ninth draw is left out
    assert "has not mixed" in belief.attrs["support_warnings"]


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", ["cvar", slow("bernstein"), slow("cdf")])
def test_other_surrogates_report_what_they_bound(surrogate):
    logs, candidates = small_world()
    constraint = bd.Constraint(surrogate=surrogate)
    belief = bd.fit(logs, candidates, gamma=0.9, rng_key=KEY, constraint=constraint)
    known = belief["constant_data"]
    failing = 1.0 - known["constraint_probability"].values
    assert np.all(failing <= known["surrogate_bound"].values + 1e-9)
    markov = bd.fit(logs, candidates, gamma=0.9, rng_key=KEY)["constant_data"]
    # All of them look for the same ratio.
    np.testing.assert_allclose(
        known["guide_mean"], markov["guide_mean"], atol=0.7 * markov["guide_sd"].values.min()
    )
    if surrogate == "cvar":
        # Tighter than Markov's at the level that it found, which is inside.
        assert np.all(known["surrogate_bound"].values < markov["surrogate_bound"].values)
        assert np.all((known["surrogate_level"] > 0) & (known["surrogate_level"] < 1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inference": "exact", "penalty": "huber(0.1)"}, "no closed form"),
        ({"inference": "exact", "surrogate": "cvar"}, "no closed form"),
        ({"inference": "exact", "link": "softplus"}, "no closed form"),
        ({"inference": "nuts", "surrogate": "cvar"}, "fits no level"),
        ({"inference": "nuts", "inner": "guide"}, "no guide"),
        ({"inference": Nuts(chains=1)}, "nuts.chains"),
        ({"inference": "nuts", "draws": 6}, "draws"),
        ({"inference": 4}, "inference: expected one of"),
        ({"inner": "guide", "penalty": "huber(0.1)"}, "inner='guide'"),
        ({"inner": "guide", "link": "softplus"}, "inner='guide'"),
        ({"link": "cube"}, "link"),
    ],
    ids=str,
)
def test_what_an_engine_cannot_do_is_refused(given, message):
    with pytest.raises(SettingsError, match=message):
        flat_settings(gamma=0.9, **given)
