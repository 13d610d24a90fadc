"""Names of methods, and one method asked for all candidates: held against each method by itself."""

import inspect
from dataclasses import dataclass, replace

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines.interface import Estimator
from bayesdice_ppl.baselines.registry import METHODS, every_name
from bayesdice_ppl.errors import BayesDiceError, LogsError, PoliciesError, SettingsError

KEY = jax.random.key(5)
QUICK = {
    "fqe_mlp": {"refits": 4, "steps": 5, "width": 8},
    "bdqn": {"refits": 4, "steps": 5, "width": 8, "draws": 50},
    "beta": {"draws": 50},
    "dirichlet": {"draws": 50},
    "lstdq_bootstrap": {"draws": 50},
}
REFUSED = {
    ("bandit", "mwl_kernel"): "vectors",
    ("frozenlake", "mwl_kernel"): "vectors",
    ("frozenlake", "beta"): "is for bandits",
}


def quick(name):
    """The method with settings under which it takes no time; answers need not be good."""
    return bd.baselines.make(name, **QUICK.get(name.partition(":")[0], {}))


@pytest.fixture(scope="module")
def worlds():
    """Logs with propensities of a bandit and of a game, with their candidates and discounts."""
    bandit, lake = (bd.simulation.make_world(name) for name in ("bandit", "frozenlake"))
    return {
        "bandit": (
            bd.simulate(bandit.env, bandit.behavior, 60, 1, rng_key=jax.random.key(0)),
            bandit.candidates,
            0.0,
        ),
        "frozenlake": (
            bd.simulate(lake.env, lake.behavior, 20, 30, rng_key=jax.random.key(1)),
            lake.candidates,
            0.9,
        ),
    }


@pytest.mark.parametrize("name", every_name())
def test_a_name_makes_the_method_that_bears_it(name):
    made = bd.baselines.make(name)
    assert made.short == name
    assert isinstance(made, bd.baselines.Baseline)
    assert made.gives in ("estimate", "interval", "draws")


def test_names_are_every_combination_and_read_in_any_order():
    names = every_name()
    assert len(set(names)) == len(names)
    assert sum(name.startswith("wpdis") for name in names) == 10
    assert sum(name.startswith("mis") for name in names) == 5
    assert {"lagrangian_dice", "lagrangian_dice:dual_dice", "gen_dice", "mql"} <= set(names)
    assert bd.baselines.make(" WPDIS:fitted:BCA ") == bd.baselines.importance_sampling(
        interval="bca", behavior="fitted"
    )


def test_settings_reach_the_method():
    assert bd.baselines.make("pdis:bernstein", max_weight=4.0) == bd.baselines.importance_sampling(
        normalized=False, interval="bernstein", max_weight=4.0
    )
    assert bd.baselines.make("lstdq", ridge=0.5, renormalize=True) == bd.baselines.lstdq(
        0.5, renormalize=True
    )
    assert bd.baselines.make("gen_dice", ridge=0.1) == bd.baselines.lagrangian_dice(
        "gen_dice", ridge=0.1
    )


def test_every_maker_that_is_public_has_a_name():
    makers = {entry.maker for entry in METHODS.values()}
    public = {getattr(bd.baselines, name) for name in bd.baselines.__all__}
    estimators = {each for each in public if inspect.isclass(each) and issubclass(each, Estimator)}
    assert estimators == makers


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("wpis", {}, ["unknown method 'wpis'", "wpdis", "bayesdice methods", "catalog()"]),
        ("importance_sampling", {}, ["did you mean is, pdis, wis, wpdis"]),
        ("fitted_q_linear", {}, ["fqe, fqe_mlp"]),
        ("zzzz", {}, ["unknown method 'zzzz'. Both bayesdice methods"]),
        ("bayes_dice", {}, ["did you mean bayesdice"]),
        ("bayesdice", {}, ["no baseline", "Use bayesdice_ppl.fit"]),
        ("wis:boot", {}, ["wis has no option 'boot'", "wis:bca"]),
        ("lstdq:bca", {}, ["lstdq has no option 'bca'", "takes none"]),
        ("mis:fitted", {}, ["mis has no option 'fitted'"]),
        ("wis:bca:student", {}, ["two options of wis:bca:student decide interval"]),
        ("lstdq", {"rige": 1.0}, ["no setting 'rige'", "did you mean ridge", "renormalize"]),
        ("coin_dice", {"zzz": 1.0}, ["no setting 'zzz'. It has divergence, ridge"]),
        ("pdis", {"kind": "trajectory"}, ["kind: is part of the method's name", "is, pdis"]),
        ("pdis", {"interval": "bca"}, ["interval: is part of the method's name", ":bca"]),
        ("lstdq", {"ridge": -1.0}, ["ridge", "at least 0"]),
        ("lstdq_bootstrap", {"resamples": 9}, ["no setting 'resamples'; did you mean draws?"]),
        ("wis:bca", {"draws": 9}, ["no setting 'draws'; did you mean resamples?"]),
        (
            "is:student",
            {"resamples": 500},
            ["resamples: has no effect on is:student; is:bca uses it"],
        ),
        ("dr:fitted", {"resamples": 500}, ["; dr:bca:fitted uses it"]),
        ("mis", {"max_weight": 2.0}, ["; mis:bernstein, mis:hoeffding use it"]),
        ("wis", {"resamples": 2000}, ["no effect"]),
        ("fqe", {"width": 8}, ["width: has no effect on fqe; fqe_mlp uses it"]),
        ("fqe_mlp", {"ridge": 1.0}, ["ridge: has no effect on fqe_mlp; fqe uses it"]),
        ("mwl", {"n_inducing": 8}, ["mwl_kernel uses it"]),
        ("mwl_kernel", {"renormalize": True}, ["; mwl uses it"]),
        ("dr", {"max_weight": 2.0}, ["dr has no setting 'max_weight'. It has cross_fit, ridge"]),
        (
            "wis:hoeffding",
            {"reward_range": (0.0, 1.0)},
            ["reward_range: wis:hoeffding uses it only with max_weight, found max_weight=None"],
        ),
        (
            "dirichlet",
            {"reward_values": (0.0, 1.0)},
            ["only with reward=beta, found reward="],
        ),
        (
            "gen_dice",
            {"normalization": False, "normalization_slack": 2.0},
            ["found normalization=False"],
        ),
        ("mql", {"normalization_slack": 2.0}, ["only with normalization=True"]),
        (
            "lstdq",
            {"renormalize": True, "features": bd.features.one_hot()},
            ["renormalize: lstdq uses it only with features=None"],
        ),
        (7, {}, ["expected a name", "7"]),
    ],
)
def test_names_and_settings_that_are_not_there_are_answered(name, settings, words):
    with pytest.raises(SettingsError) as raised:
        bd.baselines.make(name, **settings)
    for word in words:
        assert word in str(raised.value)


def test_the_catalog_says_what_each_method_says_of_itself():
    catalog = bd.baselines.catalog()
    assert catalog["name"].to_list() == list(METHODS)
    rows = {row["name"]: row for row in catalog.iter_rows(named=True)}
    assert rows["dr"]["needs"] == "propensities, labels"
    assert rows["wis"]["options"] == "student, bernstein, hoeffding, bca, fitted"
    assert rows["beta"]["needs"] == "labels, gamma = 0, rng_key"
    assert (rows["coin_dice"]["gives"], rows["beta"]["gives"]) == ("interval", "draws")
    assert rows["lstdq"]["settings"] == "ridge, features, renormalize"
    for row in rows.values():
        assert row["description"].endswith(".")
        assert len(row["description"]) < 70
    # Of every option: the bootstrap's, bounds', and those of behavior alone.
    assert rows["wis"]["settings"] == "reward_range, max_weight, resamples"
    assert rows["mis"]["settings"] == "ridge, features, reward_range, max_weight, resamples"
    assert rows["beta"]["settings"] == "prior, draws, reward_values"


@pytest.mark.parametrize("world", ["bandit", "frozenlake"])
@pytest.mark.parametrize("name", every_name())
def test_every_method_answers_by_name_or_says_why_not(world, name, worlds):
    logs, candidates, gamma = worlds[world]
    method = quick(name)
    refused = REFUSED.get((world, name))
    if refused is not None:
        with pytest.raises(BayesDiceError, match=refused):
            bd.baselines.estimate_all(method, logs, candidates, gamma=gamma, rng_key=KEY)
        return
    found = bd.baselines.estimate_all(method, logs, candidates, gamma=gamma, rng_key=KEY)
    assert found.names == tuple(candidates)
    assert np.isfinite(found.table["value"].to_numpy()).all()
    has_interval = method.gives != "estimate"
    assert (found.table["lower"].null_count() == 0) == has_interval
    if has_interval:
        assert (found.table["lower"] <= found.table["upper"]).all()
    assert found.has_draws == (method.gives == "draws")
    last = list(candidates)[-1]
    alone = method.estimate(logs, candidates[last], gamma=gamma, rng_key=KEY)
    assert found.estimates[-1].value == pytest.approx(alone.value, rel=1e-9, abs=1e-12)


def test_orders_are_those_of_sorting_by_hand(worlds):
    logs, candidates, gamma = worlds["frozenlake"]
    found = bd.baselines.estimate_all("wis:student", logs, candidates, gamma=gamma, level=0.8)
    table = {row["policy"]: row for row in found.table.iter_rows(named=True)}
    for by in ("value", "lower", "upper"):
        left, order = dict(table), []
        while left:
            best = next(iter(left))
            for name, row in left.items():
                if row[by] > left[best][by]:
                    best = name
            order.append(best)
            del left[best]
        assert found.order(by) == order
    with pytest.raises(SettingsError, match="expected one of 'value', 'lower', 'upper'"):
        found.order("sd")


def test_ties_are_ordered_by_name_and_estimates_alone_have_no_lower_end(plain):
    logs = plain.bandit([(0, 1.0), (0, 0.0), (1, 0.5)])
    same = bd.TabularPolicy([[0.5, 0.5]])
    found = bd.baselines.estimate_all("lstdq", logs, {"b": same, "a": same}, gamma=0.0)
    assert found.order() == ["a", "b"]
    with pytest.raises(SettingsError, match="lstdq gives an estimate alone"):
        found.order("lower")
    with pytest.raises(SettingsError, match="lstdq gives no draws"):
        found.belief()
    fitted = bd.baselines.estimate_all("mis", logs, {"b": same}, gamma=0.0)
    with pytest.raises(SettingsError, match="mis:student, mis:bernstein, mis:hoeffding, mis:bca"):
        fitted.order("lower")


def test_a_belief_of_draws_ranks_as_the_draws_do(worlds):
    logs, candidates, gamma = worlds["bandit"]
    method = bd.baselines.make("beta", draws=300)
    found = bd.baselines.estimate_all(method, logs, candidates, gamma=gamma, rng_key=KEY)
    belief = found.belief()
    columns = [
        method.estimate(logs, policy, gamma=gamma, rng_key=KEY).draws
        for policy in candidates.values()
    ]
    values = belief["posterior/value"]
    assert values.dims == ("chain", "draw", "policy")
    np.testing.assert_array_equal(values.to_numpy()[0], np.column_stack(columns))
    # Top-1 regret by a plain loop over the candidates.
    drawn = np.column_stack(columns)
    losses = {
        name: float((drawn.max(axis=1) - drawn[:, j]).mean()) for j, name in enumerate(candidates)
    }
    chosen = bd.select(belief, bd.scores.regret(k=1))
    assert chosen.launch == [min(losses, key=losses.get)]
    assert chosen.expected_loss == pytest.approx(min(losses.values()), rel=1e-12)
    assert belief.attrs["method"] == "beta"
    assert bd.diagnostics.logged_value(logs, 0.0).value == belief.attrs["logged_value"]
    assert "moved_mass" in belief["constant_data"]


def test_a_belief_about_what_was_never_logged_is_not_recommended(plain):
    logs = plain.bandit([(0, 1.0), (0, 0.0)] * 40 + [(1, 1.0)] * 40)
    # A third arm that the candidates know and the log does not.
    candidates = {
        "seen": bd.TabularPolicy([[0.5, 0.5, 0.0]], actions=[0, 1, 2]),
        "unseen": bd.TabularPolicy([[0.4, 0.4, 0.2]], actions=[0, 1, 2]),
    }
    free = replace(logs, declared_actions=None)
    found = bd.baselines.estimate_all("beta", free, candidates, gamma=0.0, rng_key=KEY)
    chosen = bd.select(found.belief(), bd.scores.regret(k=1))
    assert not chosen.recommended
    assert chosen.reasons == [
        "unseen: takes actions that the log does not have at 20.0% of its steps; what they are "
        "worth is beta's own assumption."
    ]


def test_errors_name_the_candidate_or_nobody(worlds, plain):
    logs, _, _ = worlds["frozenlake"]
    bandit = plain.bandit([(0, 1.0), (1, 0.0), (1, 1.0)])
    good = bd.TabularPolicy([[0.5, 0.5]])
    narrow = bd.TabularPolicy([[1.0]], states=[3], actions=[0])
    with pytest.raises(PoliciesError, match="policy 'narrow'"):
        bd.baselines.estimate_all("lstdq", bandit, {"good": good, "narrow": narrow}, gamma=0.0)
    weightless = plain.bandit([(0, 1.0), (0, 0.0)])
    unheard = bd.TabularPolicy([[0.0, 1.0]])
    with pytest.raises(BayesDiceError, match=r"^policy 'never': "):
        bd.baselines.estimate_all(
            "mis",
            bd.Logs.from_dataframe(weightless.to_dataframe(), actions=[0, 1]),
            {"good": good, "never": unheard},
            gamma=0.0,
        )
    with pytest.raises(LogsError, match="by name wpdis:fitted") as raised:
        bd.baselines.estimate_all("wpdis", bandit, {"good": good}, gamma=0.0)
    assert "good" not in str(raised.value)
    with pytest.raises(SettingsError, match="fitted_q_mlp draws: give rng_key"):
        bd.baselines.estimate_all("fqe_mlp", bandit, {"good": good}, gamma=0.0)
    with pytest.raises(SettingsError, match="expected a baseline or its name, found int"):
        bd.baselines.estimate_all(3, logs, {"good": good}, gamma=0.0)


def test_all_candidates_are_asked_for_in_one_action_space():
    # One candidate alone knows too few actions for this log.
    logs = bd.Logs.from_dataframe(
        pl.DataFrame({"state": [0, 0, 0], "action": [0, 1, 2], "reward": [1.0, 0.0, 1.0]})
    )
    wide = bd.TabularPolicy([[0.2, 0.3, 0.5]], actions=[0, 1, 2])
    narrow = bd.TabularPolicy([[0.5, 0.5]], actions=[0, 1])
    found = bd.baselines.estimate_all("lstdq", logs, {"w": wide, "n": narrow}, gamma=0.0)
    np.testing.assert_allclose(found.table["value"].to_numpy(), [0.7, 0.5], atol=1e-5)


def test_what_is_not_finite_is_refused(plain):
    @dataclass(frozen=True)
    class Broken:
        name = short = "broken"
        needs = bd.baselines.Needs()
        gives = "estimate"

        def estimate(self, *_, **__):
            return bd.baselines.Estimate(float("nan"))

    logs = plain.bandit([(0, 1.0), (1, 0.0)])
    with pytest.raises(LogsError, match="'a': expected a finite number from broken, found nan"):
        bd.baselines.estimate_all(Broken(), logs, {"a": bd.TabularPolicy([[0.5, 0.5]])}, gamma=0.0)


def test_estimates_show_what_the_log_cannot_tell():
    logs = bd.Logs.from_dataframe(
        pl.DataFrame({"state": [0] * 60, "action": [0, 1] * 30, "reward": [1.0, 0.0, 0.5] * 20}),
        actions=[0, 1, 2],
    )
    policies = {
        "known": bd.TabularPolicy(np.array([[0.5, 0.5, 0.0]])),
        "new": bd.TabularPolicy(np.array([[0.0, 0.0, 1.0]])),
    }
    found = bd.baselines.estimate_all("lstdq", logs, policies, gamma=0.0)
    assert found.support_warnings
    assert all(sentence.startswith("new: ") for sentence in found.support_warnings)
    shown = repr(found)
    assert shown.startswith("Estimates(lstdq, 2 policies)")
    assert "Warning: new: " in shown
    assert "known" in shown
