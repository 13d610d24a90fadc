"""Figures of beliefs and calibrations: what they hold, at 3 and at 60 policies; never by pixels."""

from itertools import pairwise

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import SupportWarning, make_belief
from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.groups.residuals import mean_residuals
from bayesdice_ppl.selection.ranks import rank_probabilities
from tests.marks import slow

KEY = jax.random.key(0)


def named(n):
    return [f"policy {i}" if i % 7 else f"a longer name, $5 or $6, {i}" for i in range(n)]


def belief_of(n, **more):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, n)) + 0.5 * rng.normal(size=(300, 1)) + 0.02 * np.arange(n)
    gauges = {
        "effective_sample_size": np.linspace(3.0, 300.0, n),
        "moved_mass": np.linspace(0.0, 0.1, n),
        "lost_mass": np.linspace(0.05, 0.0, n),
        "influential_episode_share": np.linspace(0.1, 0.9, n),
    }
    return make_belief(values, named(n), logged_value=0.1, **gauges | more)


def inside(texts, figure):
    figure.canvas.draw()
    page = figure.bbox
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= page.x0 - 1, text.get_text()
        assert box.x1 <= page.x1 + 1, text.get_text()


@pytest.mark.parametrize("n", [3, slow(60)])
def test_ridges_stand_beside_their_names(n):
    collection = bd.plots.ridge(belief_of(n))
    texts = collection.get_target(None, {"column": "labels"}).texts
    assert len(texts) == n
    inside(texts, collection.get_viz("figure"))
    boxes = sorted((t.get_window_extent() for t in texts), key=lambda box: box.y0)
    assert all(low.y1 < high.y0 + 2 for low, high in pairwise(boxes))


@pytest.mark.parametrize("n", [3, slow(60)])
def test_chances_of_the_top_are_those_of_the_ranks(n):
    belief = belief_of(n)
    collection = bd.plots.top_k(belief, 2)
    axes = collection.get_viz("plot")
    top, best = (line.get_xdata() for line in axes.lines[:2])
    names = [label.get_text() for label in axes.get_yticklabels()]
    shares = rank_probabilities(belief).sel(policy=names).values
    np.testing.assert_allclose(best, shares[:, 0])
    np.testing.assert_allclose(top, shares[:, :2].sum(axis=1))
    inside(axes.get_yticklabels(), collection.get_viz("figure"))


@pytest.mark.parametrize("n", [3, slow(60)])
def test_what_is_past_a_gauge_is_a_cross(n):
    belief = belief_of(n)
    collection = bd.plots.support(belief)
    for name, threshold, low in (
        ("effective_sample_size", 20.0, True),
        ("moved_mass", 0.02, False),
        ("lost_mass", 0.02, False),
        ("influential_episode_share", 0.75, False),
    ):
        axes = collection.get_target(None, {"measure": name})
        crosses = next(line for line in axes.lines if line.get_marker() == "X").get_xdata()
        values = belief["constant_data"][name].values
        past = values <= threshold if low else values > threshold
        np.testing.assert_allclose(np.sort(crosses), np.sort(values[past]))


@pytest.mark.parametrize("most", [300.0, 10_000.0, 1e6], ids=["hundreds", "thousands", "millions"])
def test_numbers_of_effective_rows_do_not_overlap(most):
    belief = belief_of(3, effective_sample_size=np.array([most / 10, most / 3, most]))
    collection = bd.plots.support(belief)
    axes = collection.get_target(None, {"measure": "effective_sample_size"})
    collection.get_viz("figure").canvas.draw()
    low, high = axes.get_xlim()
    shown = [
        label
        for label in axes.get_xticklabels()
        if label.get_text() and low <= label.get_position()[0] <= high
    ]
    boxes = [label.get_window_extent() for label in shown]
    assert len(boxes) >= 2
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert not any("e+" in label.get_text() for label in shown)


@pytest.mark.parametrize(
    ("lost", "named_gauge", "crossed"),
    [(0.1, "", True), (0.01, "", False), (0.01, "lost mass", True)],
    ids=["past", "below", "warned"],
)
def test_steps_of_which_the_log_says_nothing_are_shown(lost, named_gauge, crossed):
    name = named(3)[1]
    warning = SupportWarning(name, "reaches nothing.", True, named_gauge, lost, 1e-6)
    warnings = (warning,) if named_gauge else ()
    belief = belief_of(3, lost_mass=np.array([0.0, lost, 0.0]), support_warnings=warnings)
    axes = bd.plots.support(belief).get_target(None, {"measure": "lost_mass"})
    crosses = next(line for line in axes.lines if line.get_marker() == "X").get_xdata()
    np.testing.assert_allclose(crosses, [lost] if crossed else [])


@pytest.mark.parametrize("n", [3, slow(60)])
def test_dependence_is_the_correlation_of_the_draws(n):
    belief = belief_of(n)
    collection = bd.plots.dependence(belief, order=named(n))
    (image,) = collection.get_viz("plot").images
    expected = np.corrcoef(belief["posterior/value"].values[0].T)
    np.testing.assert_allclose(image.get_array(), expected)
    inside(collection.get_viz("plot").get_yticklabels(), collection.get_viz("figure"))


def test_arvizs_own_figures_on_other_backends():
    belief = belief_of(3)
    for make in (bd.plots.ridge, bd.plots.pairs):
        assert make(belief, backend="none").backend == "none"
    assert bd.plots.pairs(belief, order=named(3)[:2]).backend == "matplotlib"


def calibration(n, trials=200):
    rng = np.random.default_rng(1)
    pit = rng.random((trials, n))
    pit[:, 0] = rng.beta(0.3, 0.3, size=trials)
    zeros = np.zeros((trials, n))
    return bd.Calibration(tuple(named(n)), "sbc", zeros, zeros, zeros + 1.0, pit, zeros > 0)


@pytest.mark.parametrize("n", [3, slow(60)])
def test_coverage_curves_are_those_of_the_record(n):
    record = calibration(n)
    axes = bd.plots.coverage(record).get_viz("plot")
    curves = [line for line in axes.lines if len(line.get_xdata()) == 49]
    assert len(curves) == n
    levels = curves[0].get_xdata()
    for level, share in zip(levels[::8], curves[0].get_ydata()[::8], strict=True):
        np.testing.assert_allclose(share, record.coverage(level)[0])
    named_in_legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(named_in_legend) == (1 + n if n == 3 else 1 + len(record.missed))
    assert record.missed == (named(n)[0],)


def test_ranks_of_the_truth_are_of_twelve_policies_at_most():
    figure = bd.plots.ranks_of_truth(calibration(60), backend="none")
    assert figure.viz["plot"].sizes["policy"] == 12
    with pytest.raises(BayesDiceError, match="from one to 12"):
        bd.plots.ranks_of_truth(calibration(60), order=named(13))


@pytest.fixture(scope="module")
def fitted(plain):
    logs, policies = plain.log(4, n_episodes=40), plain.policies(4, 2)
    belief = bd.fit(logs, policies, gamma=0.9, rng_key=KEY, draws=200)
    return logs, policies, belief


def test_prior_influence_and_residuals_of_a_fit(fitted):
    logs, policies, belief = fitted
    with pytest.raises(BayesDiceError, match="add_prior"):
        bd.plots.prior_posterior(belief)
    with pytest.raises(BayesDiceError, match="add_log_likelihood"):
        bd.plots.influence(belief)
    full = bd.add_prior(bd.add_log_likelihood(belief, logs, policies), logs, policies, rng_key=KEY)
    assert bd.plots.prior_posterior(full, backend="none").backend == "none"
    assert bd.plots.influence(full, policy="p1").get_viz("plot").get_xlabel() == "episode"
    with pytest.raises(BayesDiceError, match="expected one of 'p0', 'p1'"):
        bd.plots.influence(full)
    found = mean_residuals(belief, logs, policies)
    (image,) = bd.plots.residuals(belief, logs, policies).get_viz("plot").images
    np.testing.assert_allclose(image.get_array(), found.z)
    assert found.labels[-1] == "value"
    # A ratio with a weight for each pair meets every test: half a standard error is much.
    assert np.nanmax(np.abs(found.z)) < 0.5
    plt.close("all")


def test_the_course_of_svi_ends_at_zero():
    rng = np.random.default_rng(0)
    trace = -np.exp(-np.arange(1000) / 100) * 50 + 0.01 * rng.normal(size=(2, 1000)) + 7.0
    belief = make_belief(rng.normal(size=(10, 2)), ["a", "b"], elbo=trace, engine="svi (x)")
    axes = bd.plots.elbo(belief).get_viz("plot")
    drawn = [line for line in axes.lines if len(line.get_xdata()) > 100]
    assert len(drawn) == 2
    assert all(abs(line.get_ydata()[-100:].mean()) < 0.05 for line in drawn)
    assert drawn[0].get_ydata()[0] < -40
    with pytest.raises(BayesDiceError, match="not fitted by SVI"):
        bd.plots.elbo(make_belief(rng.normal(size=(10, 2)), ["a", "b"]))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        pytest.param(lambda b: bd.plots.top_k(b, 3), "less than the number", id="k"),
        pytest.param(lambda b: bd.plots.top_k(b, 1), "k: expected", id="one"),
        pytest.param(lambda b: bd.plots.pairs(b, order=["policy 1"]), "two to 6", id="pairs"),
        pytest.param(lambda b: bd.plots.ridge(b, order=["x"]), "found 'x'", id="ridge"),
    ],
)
def test_wrong_orders_and_numbers_are_refused(draw, message):
    with pytest.raises(BayesDiceError, match=message):
        draw(belief_of(3))
