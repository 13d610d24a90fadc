"""Statistics of the one-step reward: dual forms by brute force, and what a fit makes of them."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import fit_flat
from bayesdice_ppl.statistics import statistic_choice, weighted_distribution
from tests.marks import slow

st = bd.statistics
RNG = np.random.default_rng(11)
REWARD = RNG.normal(size=400).round(1)
MASS = RNG.gamma(1.0, size=400)
MASS /= MASS.sum()


def brute_cdf(x):
    return sum(m for r, m in zip(REWARD, MASS, strict=True) if r <= x)


def test_a_weighted_distribution_is_the_sum_of_its_atoms():
    found = weighted_distribution(REWARD, MASS)
    assert found.mean() == pytest.approx(MASS @ REWARD, rel=1e-12)
    for x, mass in zip(found.reward, found.cumulative, strict=True):
        assert mass == pytest.approx(brute_cdf(x), abs=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_the_quantile_is_the_least_reward_with_enough_mass_below(alpha):
    found = weighted_distribution(REWARD, MASS).quantile(alpha)
    expected = min(x for x in REWARD if brute_cdf(x) >= alpha)
    assert found == expected


def test_masses_below_zero_are_rearranged():
    found = weighted_distribution(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.5, -0.2, 0.4, 0.3]))
    np.testing.assert_allclose(found.cumulative, [0.3, 0.5, 0.7, 1.0])
    assert np.all(found.mass >= 0.0)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
def test_the_dual_form_of_cvar_is_the_mean_of_the_worst_share(alpha):
    statistic = st.cvar(alpha)
    distribution = weighted_distribution(REWARD, MASS)
    center = statistic.center(distribution)
    found = MASS @ statistic.transform(REWARD, center)
    order = np.argsort(REWARD, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(MASS[order])])
    share = np.clip(alpha - below[:-1], 0.0, MASS[order])
    assert found == pytest.approx(share @ REWARD[order] / alpha, rel=1e-10)
    for other in np.linspace(-3.0, 3.0, 61):
        assert MASS @ statistic.transform(REWARD, other) <= found + 1e-12


def test_variance_and_mean_variance_are_profiled_at_the_mean():
    distribution = weighted_distribution(REWARD, MASS)
    mean = MASS @ REWARD
    variance = MASS @ (REWARD - mean) ** 2
    for statistic, expected in [
        (st.variance(), variance),
        (st.mean_variance(0.7), mean - 0.7 * variance),
    ]:
        center = statistic.center(distribution)
        assert MASS @ statistic.transform(REWARD, center) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "text", ["mean", "cvar(0.1)", "quantile(0.5)", "variance", "mean_variance(2)"]
)
def test_the_text_of_a_statistic_is_read_back(text):
    assert str(statistic_choice(text)) == text
    assert statistic_choice(statistic_choice(text)) == statistic_choice(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: st.cvar(0.0), "share"),
        (lambda: st.quantile(1.0), "below 1"),
        (lambda: st.cvar(True), "share"),
        (lambda: st.mean(3), "function"),
        (lambda: st.mean_variance(float("nan")), "finite"),
        (lambda: statistic_choice("median"), "expected one of mean"),
        (lambda: statistic_choice("cvar"), r"needs a number: write cvar\(alpha\)"),
        (lambda: statistic_choice("mean(2)"), "no number"),
        (lambda: statistic_choice("cvar(a)"), "number in brackets"),
        (lambda: st.mean(lambda r: r[:1]).transform(REWARD, 0.0), "each of 400"),
        (lambda: st.mean(lambda r: r / 0.0 if False else r * np.inf).transform(REWARD, 0.0), "fin"),
    ],
)
def test_wrong_statistics_are_refused(make, message):
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(bd.errors.SettingsError, match=message),
    ):
        make()


@pytest.fixture(scope="module")
def bandit_log(plain):
    return plain.log(3, rewards="continuous"), plain.policies(5, 2)


def fit(log, statistic, **given):
    logs, policies = log
    given = {"inference": "exact", "draws": 2000, **given}
    return bd.fit(
        logs, policies, gamma=0.9, rng_key=jax.random.key(2), statistic=statistic, **given
    )


@pytest.mark.slow
def test_an_affine_transform_moves_the_belief_as_it_moves_rewards(bandit_log):
    plain_fit = fit(bandit_log, None)["constant_data"]
    moved = fit(bandit_log, st.mean(lambda r: 3.0 * r + 5.0))["constant_data"]
    # Mass that the log loses counts as the mean reward, so that the shift is whole.
    np.testing.assert_allclose(moved["guide_mean"], 3.0 * plain_fit["guide_mean"] + 5.0, rtol=1e-6)
    np.testing.assert_allclose(moved["guide_sd"], 3.0 * plain_fit["guide_sd"], rtol=1e-6)


def test_cvar_of_everything_is_the_mean_draw_by_draw(bandit_log):
    belief = fit(bandit_log, [st.cvar(1.0), "mean"])
    np.testing.assert_allclose(
        belief["posterior/cvar(1)"].values, belief["posterior/mean"].values, rtol=0, atol=1e-9
    )
    np.testing.assert_array_equal(
        belief["posterior/value"].values, belief["posterior/cvar(1)"].values
    )
    plain_fit = fit(bandit_log, None)
    np.testing.assert_allclose(
        belief["constant_data/guide_mean"], plain_fit["constant_data/guide_mean"], rtol=1e-9
    )


def test_statistics_of_one_fit_move_together(bandit_log):
    belief = fit(bandit_log, ["mean", "cvar(0.5)", "quantile(0.5)"])
    mean, tail, median = (
        belief[f"posterior/{name}"].values[0, :, 0]
        for name in ("mean", "cvar(0.5)", "quantile(0.5)")
    )
    assert np.corrcoef(mean, tail)[0, 1] > 0.5
    assert np.corrcoef(mean, median)[0, 1] > 0.3
    assert np.isin(median, bandit_log[0].reward).all()
    assert tail.mean() < mean.mean()


def test_quantile_draws_are_centered_on_the_weighted_quantile(bandit_log):
    logs, _ = bandit_log
    for alpha in (0.2, 0.5, 0.8):
        belief = fit(bandit_log, st.quantile(alpha))
        weights = belief["posterior/weights"].values[0].mean(axis=0)
        known = belief["constant_data"]
        pair = [
            f"{s}, {a}"
            for s, a in zip(
                logs.state_labels[logs.state], logs.action_labels[logs.action], strict=True
            )
        ]
        names = [
            f"{s}, {a}"
            for s, a in zip(known["pair_state"].values, known["pair_action"].values, strict=True)
        ]
        where = [names.index(p) for p in pair]
        for j in range(2):
            mass = weights[j, where]
            order = np.argsort(logs.reward)
            total = np.cumsum(mass[order]) / mass.sum()
            brute = logs.reward[order][np.searchsorted(total, alpha)]
            draws = belief["posterior/value"].values[0, :, j]
            # The median of the belief is the inverse of the mean distribution function.
            low, high = np.quantile(draws, [0.4, 0.6])
            assert low - 1e-9 <= brute <= high + 1e-9


def test_every_engine_takes_statistics_and_select_ranks_by_each(bandit_log):
    exact = fit(bandit_log, ["cvar(0.3)", "mean", "quantile(0.3)"])
    svi = fit(bandit_log, ["cvar(0.3)", "mean", "quantile(0.3)"], inference="svi")
    for name in ("cvar(0.3)", "mean", "quantile(0.3)"):
        one, other = (b[f"posterior/{name}"].values[0] for b in (exact, svi))
        sd = one.std(axis=0)
        assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 0.2 * sd + 1e-9)
    best = bd.select(exact, bd.scores.regret(k=1), statistic="mean")
    again = bd.select(fit(bandit_log, None), bd.scores.regret(k=1))
    assert best.order == again.order
    with pytest.raises(bd.errors.BeliefError, match="posterior/median"):
        bd.select(exact, bd.scores.regret(k=1), statistic="median")


def test_lists_of_statistics_are_checked(bandit_log):
    for wrong, message in [([], "a list"), (["mean", "mean"], "twice"), (3, "a list")]:
        with pytest.raises(bd.errors.SettingsError, match=message):
            fit(bandit_log, wrong)


@pytest.mark.slow
def test_what_is_absorbed_earns_nothing_for_ever():
    # One state, one action: reward 1 and the end with probability a half, discounted by 0.5.
    rng = np.random.default_rng(0)
    ends = rng.random(4000) < 0.5
    frame = {
        "episode_id": np.cumsum(np.r_[True, ends[:-1]]),
        "state": np.zeros(4000, dtype=int),
        "action": np.zeros(4000, dtype=int),
        "reward": np.ones(4000),
        "terminated": ends,
        "next_state": np.zeros(4000, dtype=int),
    }
    logs = bd.Logs.from_dataframe(pl.DataFrame(frame))
    belief = bd.fit(
        logs,
        {"p": bd.TabularPolicy([[1.0]])},
        gamma=0.5,
        rng_key=jax.random.key(0),
        inference="exact",
        on_termination="absorb",
        statistic=["variance", "quantile(0.2)", "quantile(0.5)"],
    )
    # Visits have the discounted mass (1 - 0.5) sum (0.5 0.5)^t = 2/3, the rest earns 0.
    draws = belief["posterior/variance"].values
    assert abs(draws.mean() - 2.0 / 9.0) < 4 * max(draws.std(), 2e-3)
    assert np.all(belief["posterior/quantile(0.2)"].values == 0.0)
    assert np.all(belief["posterior/quantile(0.5)"].values == 1.0)


def absorbing_log():
    rng = np.random.default_rng(4)
    ends = rng.random(600) < 0.3
    action = rng.integers(0, 2, 600)
    frame = {
        "episode_id": np.cumsum(np.r_[True, ends[:-1]]),
        "state": np.zeros(600, dtype=int),
        "action": action,
        "reward": np.where(rng.random(600) < 0.3 + 0.4 * action, 1.0, -1.0),
        "terminated": ends,
        "next_state": np.zeros(600, dtype=int),
    }
    return bd.Logs.from_dataframe(pl.DataFrame(frame))


@pytest.mark.parametrize("termination", ["restart", slow("absorb")])
@pytest.mark.parametrize(
    "form",
    [
        {"inference": "exact"},
        {"inference": "exact", "joint": False},
        slow({"inference": "exact", "value_constraint": False}),
        slow({"link": "softplus"}),
        slow({"link": "softplus", "value_constraint": False}),
    ],
    ids=str,
)
def test_a_list_of_statistics_gives_what_each_gives_alone(termination, form):
    logs = absorbing_log()
    policies = {"one": bd.TabularPolicy([[0.8, 0.2]]), "two": bd.TabularPolicy([[0.2, 0.8]])}
    given = {
        "gamma": 0.9, "rng_key": jax.random.key(2), "on_termination": termination, "draws": 4000,
        **form,
    }  # fmt: skip
    names = ["quantile(0.14)", "quantile(0.87)", "cvar(0.9)", "mean"]
    together = fit_flat(logs, policies, statistic=names, **given)
    for name in names[1:3]:
        alone = fit_flat(logs, policies, statistic=name, **given)["posterior/value"].values[0]
        beside = together[f"posterior/{name}"].values[0]
        # Draws of both are the belief's: means agree within their Monte Carlo error.
        error = np.sqrt((alone.var(axis=0) + beside.var(axis=0)) / 4000)
        assert np.all(np.abs(alone.mean(axis=0) - beside.mean(axis=0)) <= 5 * error + 1e-9)
    mean, tail = (together[f"posterior/{name}"].values[0] for name in ("mean", "cvar(0.9)"))
    assert tail.std(axis=0).min() > 1e-4
    # Statistics of one candidate stay together, whatever candidates do.
    for j in range(2):
        assert np.corrcoef(mean[:, j], tail[:, j])[0, 1] > 0.4
    if form.get("joint") is False:
        assert abs(np.corrcoef(mean[:, 0], tail[:, 1])[0, 1]) < 5 / np.sqrt(4000)


def test_a_candidate_that_visits_none_of_the_log_has_its_rewards():
    found = weighted_distribution(REWARD, np.zeros(400))
    assert found.mean() == pytest.approx(REWARD.mean())


def test_tails_of_which_the_log_holds_nothing_are_said(bandit_log):
    belief = fit(bandit_log, "cvar(0.001)", draws=10)
    assert (
        "effective transitions. Nothing is known of a tail beyond"
        in belief.attrs["support_warnings"]
    )
    assert not bd.select(belief, bd.scores.regret(k=1)).recommended
    assert "beyond" not in fit(bandit_log, "cvar(0.5)", draws=10).attrs["support_warnings"]


def test_the_command_ranks_by_a_statistic(tmp_path, monkeypatch, capsys, bandit_log):
    import sys

    from bayesdice_ppl import cli

    logs, policies = bandit_log
    logs.to_dataframe().write_csv(tmp_path / "logs.csv")
    bd.Policies(policies).to_dataframe().write_csv(tmp_path / "candidates.csv")
    arguments = [
        "select", tmp_path / "logs.csv", "--policies", tmp_path / "candidates.csv", "--gamma", 0.9,
        "--inference", "exact", "--seed", 1, "--statistic", "cvar(0.5),mean",
        "-o", tmp_path / "out",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["bayesdice", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code in (0, None, 3), capsys.readouterr().err
    belief = bd.load_belief(tmp_path / "out" / "belief.nc")
    assert "cvar(0.5)" in belief.attrs["settings"]
    assert "cvar(0.5) of each candidate's reward" in " ".join(capsys.readouterr().out.split())
    arguments = ["rank", tmp_path / "out" / "belief.nc", "--statistic", "mean"]
    monkeypatch.setattr(sys, "argv", ["bayesdice", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code in (0, None, 3)
    assert "reward per step" in " ".join(capsys.readouterr().out.split())


def test_prepare_refuses_what_its_problem_is_not_about(bandit_log):
    with pytest.raises(bd.errors.SettingsError, match="mean reward"):
        bd.prepare(*bandit_log, gamma=0.9, statistic="cvar(0.1)")
