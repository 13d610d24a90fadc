"""Risks of the losses, against exact arithmetic and Rockafellar and Uryasev's minimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdice_ppl import risk, scores
from bayesdice_ppl.errors import SettingsError
from tests.scores import literal

MAKERS = [scores.precision, scores.accuracy, scores.regret, scores.normalized_regret, scores.ndcg]

losses_of = st.lists(st.integers(-8, 8).map(lambda i: i / 4), min_size=1, max_size=30)
alphas = st.one_of(
    st.floats(1e-3, 1.0), st.sampled_from([1e-15, 1e-9, 0.1, 0.2, 0.25, 0.29, 1 / 3, 0.7, 1.0])
)


def found(alpha, losses):
    return risk.cvar(alpha).of(np.array([losses], float))[0]


@settings(max_examples=100, deadline=None)
@given(losses=losses_of, alpha=alphas)
def test_cvar_is_the_literal_one(losses, alpha):
    assert found(alpha, losses) == pytest.approx(literal.cvar(alpha, losses), abs=1e-12)
    # Its dual: a threshold and the mean excess over it, least over thresholds.
    dual = min(t + sum(max(x - t, 0) for x in losses) / len(losses) / alpha for t in losses)
    if alpha > 1e-3:
        assert found(alpha, losses) == pytest.approx(dual, abs=1e-10)


@pytest.mark.parametrize(
    ("alpha", "losses", "expected"),
    [
        (0.5, [1, 4, 2, 3], 3.5),
        (0.25, [1, 4, 2, 3], 4),
        (0.1, [1, 4, 2, 3], 4),
        # 1.5 draws: all of 4, and half of 3.
        (0.375, [1, 4, 2, 3], 5.5 / 1.5),
        (1, [1, 4, 2, 3], 2.5),
        (0.75, [-1, -4, -2, -3], -2),
        (0.4, [7], 7),
        (0.5, [2, 2, 2], 2),
        (5e-324, [1, 4, 2, 3], 4),
    ],
)
def test_by_hand(alpha, losses, expected):
    assert found(alpha, losses) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(("alpha", "worst"), [(0.1, 3), (0.2, 6), (0.3, 9), (0.7, 21), (0.9, 27)])
def test_a_whole_number_of_draws_is_not_lost_to_rounding(alpha, worst):
    losses = np.random.default_rng(1).permutation(np.arange(30.0) ** 2)
    expected = sum(float(i) ** 2 for i in range(30 - worst, 30)) / worst
    assert found(alpha, losses) == pytest.approx(expected, rel=1e-14)
    # What lies below them does not count, however far.
    far = np.where(losses < (30 - worst) ** 2, -1e6, losses)
    assert found(alpha, far) == pytest.approx(expected, rel=1e-8)


def test_alpha_a_hair_from_a_whole_number_of_draws():
    losses = [0.0, 1.0, 2.0, 3.0, 1000.0]
    for alpha in (0.4 + 1e-10, 0.4 - 1e-10, 0.4 + 1e-16, 0.2 + 1e-11, 0.2 - 1e-11):
        assert found(alpha, losses) == pytest.approx(literal.cvar(alpha, losses), rel=1e-13)


@settings(max_examples=40, deadline=None)
@given(losses=losses_of, data=st.data())
def test_order_and_edges(losses, data):
    low, high = sorted(data.draw(st.lists(st.floats(1e-3, 1.0), min_size=2, max_size=2)))
    mean, most = sum(losses) / len(losses), max(losses)
    assert found(1, losses) == pytest.approx(mean, abs=1e-12)
    assert mean - 1e-12 <= found(high, losses) <= found(low, losses) + 1e-12
    assert found(low, losses) <= most + 1e-12
    assert found(1 / len(losses), losses) == pytest.approx(most, abs=1e-12)
    shifted = [x + 3 for x in losses]
    assert found(low, shifted) == pytest.approx(found(low, losses) + 3, abs=1e-12)
    assert found(low, [4 * x for x in losses]) == pytest.approx(4 * found(low, losses), abs=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.55, 1.0])
def test_rows_are_rankings(alpha):
    losses = np.random.default_rng(2).normal(size=(6, 30))
    before = losses.copy()
    rows = risk.cvar(alpha).of(losses)
    assert rows.shape == (6,)
    expected = [literal.cvar(alpha, row) for row in losses]
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(losses, before)
    np.testing.assert_allclose(risk.mean().of(losses), [sum(row) / 30 for row in losses])
    assert risk.cvar(alpha).of(losses[:0]).shape == (0,)
    assert risk.mean().of(losses[:0]).shape == (0,)


@settings(max_examples=40, deadline=None)
@given(losses=losses_of, alpha=st.floats(1e-3, 1.0))
def test_influences_average_to_the_risk(losses, alpha):
    parts = risk.cvar(alpha).influence(np.array(losses))
    assert parts.shape == (len(losses),)
    assert parts.mean() == pytest.approx(literal.cvar(alpha, losses), abs=1e-11)
    assert risk.mean().influence(np.array(losses)).tolist() == losses


def test_the_spread_of_the_influences_is_the_error_of_the_risk():
    rng = np.random.default_rng(4)
    n_draws, worlds = 1000, 400
    losses = rng.exponential(size=(worlds, n_draws))
    cvar = risk.cvar(0.2)
    errors = [cvar.influence(row).std() / np.sqrt(n_draws) for row in losses]
    spread = cvar.of(losses).std()
    # A standard deviation of 400 numbers is known to 1 / sqrt(800).
    assert np.mean(errors) == pytest.approx(spread, rel=5 / np.sqrt(2 * worlds))


@pytest.mark.parametrize("alpha", [0, 0.0, -0.1, 1.0000001, np.nan, np.inf, -np.inf, 10])
def test_alpha_out_of_range(alpha):
    with pytest.raises(SettingsError, match=r"alpha: expected a number in \(0, 1\]"):
        risk.cvar(alpha)


@pytest.mark.parametrize("alpha", [True, "0.1", None, [0.1], 1j, np.complex128(0.1), np.bool_(1)])
def test_alpha_that_is_no_number(alpha):
    with pytest.raises(SettingsError, match=r"alpha: expected a number in \(0, 1\]"):
        risk.cvar(alpha)


def test_names_and_equality():
    assert risk.mean().name == "mean"
    assert risk.cvar(0.1).name == "cvar(0.1)"
    assert risk.cvar(1).name == "cvar(1)"
    assert risk.cvar(np.float64(0.5)) == risk.cvar(0.5)
    assert risk.cvar(0.5) != risk.cvar(0.25)
    assert len({risk.cvar(0.5), risk.cvar(0.5), risk.mean()}) == 2
    assert isinstance(risk.mean(), risk.Risk)
    assert isinstance(risk.cvar(0.1), risk.Risk)


@pytest.mark.parametrize("make", MAKERS)
def test_names_of_scores(make):
    plain, averse = make(2), make(2, risk=risk.cvar(0.1))
    assert averse.name == f"cvar(0.1) of {plain.name}"
    assert averse.label == plain.label == plain.name
    assert repr(averse) == f"Score('cvar(0.1) of {plain.name}')"
    assert make(2, risk=risk.mean()) == plain
    assert plain.averaged
    assert not averse.averaged


@pytest.mark.parametrize("one", [risk.mean(), risk.cvar(0.1), risk.cvar(1)])
def test_a_name_is_read_back(one):
    assert risk.read(one.name) == one


@pytest.mark.parametrize(
    "text", ["median", "cvar", "cvar()", "cvar(x)", "mean(0.1)", "cvar(2)", ""]
)
def test_a_name_that_is_none(text):
    with pytest.raises(SettingsError, match=r"expected|needs|takes no number"):
        risk.read(text, "--risk")


def test_names_of_scores_without_a_k():
    cvar = risk.cvar(0.25)
    assert scores.spearman(risk=cvar).name == "cvar(0.25) of spearman"
    assert scores.kendall(risk=cvar).name == "cvar(0.25) of kendall"
    assert scores.custom(lambda v, r: v[:, 0], name="mine", risk=cvar).name == "cvar(0.25) of mine"
    assert scores.correlation(3, risk=cvar).name == "cvar(0.25) of correlation@3"


@pytest.mark.parametrize("bad", [0.1, "cvar", risk.cvar, risk.mean, type(risk.mean()), object()])
@pytest.mark.parametrize("word", literal.WORDS)
def test_what_is_no_risk(word, bad):
    with pytest.raises(SettingsError, match=r"risk: expected one of bayesdice_ppl\.risk"):
        literal.make(word, 2, 3, bad)
