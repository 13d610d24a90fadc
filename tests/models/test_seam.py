"""A second model of the ratio, written here: all that a fit does to a ratio goes through one seam.

A table of ratios exp(latent) under a normal prior of its own width on the log. It has no closed
form, so that SVI is held against NUTS.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.models import (
    LinearRatio,
    Link,
    RatioModel,
    guide,
    linear,
    model,
    through_link,
    value_prior,
)
from bayesdice_ppl.moments import Moments, Prior

KEY = jax.random.key(7)
EXP = Link("exp", jnp.exp, jnp.log, jnp.reciprocal)


class TableRatio(eqx.Module):
    """The model on one log: the linear ratio lends it a first estimate and rough coordinates."""

    moments: Moments
    rough: LinearRatio
    prior: Prior = eqx.field(static=True)
    width: float = eqx.field(static=True)

    def latent_prior(self):
        return dist.Normal(jnp.zeros_like(self.moments.active), self.width).to_event(1)

    def value_prior(self):
        return value_prior(self.moments, self.prior)

    def by_pair(self, latent):
        return jnp.exp(latent) * self.moments.active

    def residual(self, latent):
        return self.moments.residual(self.by_pair(latent))

    def recorded(self, latent):
        return self.by_pair(latent)

    refreshes = 1

    def estimate(self, noise, start=None):
        return self.rough.estimate(noise, start)

    def coordinates(self, noise, rows, *, value_constraint):
        found = self.rough.coordinates(noise, rows, value_constraint=value_constraint)
        return through_link(found, EXP, value_constraint=value_constraint)

    model = model
    guide = guide


class Table(NamedTuple):
    """The model as it is asked for."""

    width: float = 1.0

    @property
    def linear(self):
        return False

    def record(self, *, tabular):
        return "ratio", "pair" if tabular else "feature"

    def build(self, cells, moments, prior):
        return TableRatio(moments, linear().build(cells, moments, prior), prior, self.width)

    def __str__(self):
        return f"table({self.width:g})"


@pytest.fixture(scope="module")
def bandit(plain):
    """Sixty pulls, of which each arm paid more than once and less than always."""
    rng = np.random.default_rng(12)
    arms = rng.integers(2, size=60).tolist()
    pulls = [(arm, float(rng.random() < (0.7, 0.3)[arm])) for arm in arms]
    tables = {"good": [[0.9, 0.1]], "even": [[0.5, 0.5]]}
    return plain.bandit(pulls), {name: bd.TabularPolicy(t) for name, t in tables.items()}, 0.0


@pytest.fixture(scope="module")
def chain(plain):
    return plain.log(3, n_states=2, rewards="continuous"), plain.policies(5, 2, n_states=2), 0.9


@pytest.fixture(scope="module")
def by_svi(bandit):
    """A log with its candidates, and the model's belief by SVI."""
    logs, policies, gamma = bandit
    return logs, policies, bd.fit(logs, policies, gamma=gamma, rng_key=KEY, model=Table())


@pytest.fixture(scope="module", params=["bandit", "chain"])
def both(request):
    """A log with its candidates, and the model's belief by SVI and by NUTS."""
    logs, policies, gamma = request.getfixturevalue(request.param)
    given = {"gamma": gamma, "rng_key": KEY, "model": Table(), "draws": 8000}
    return (
        logs,
        policies,
        *(bd.fit(logs, policies, inference=engine, **given) for engine in ("svi", "nuts")),
    )


def test_it_is_a_model_by_its_shape_alone():
    assert isinstance(Table(), RatioModel)
    assert hash(Table(0.5)) == hash(Table(0.5))


@pytest.mark.slow
def test_svi_agrees_with_nuts(both):
    _, _, svi, nuts = both
    found, judge = svi["constant_data"], nuts["constant_data"]
    assert np.all(judge["r_hat"].values < 1.05)
    sd = judge["guide_sd"].values
    # The guide is Gaussian in the log of the ratio, which the posterior nearly is: a tenth of a
    # deviation is for that, and five errors are the judge's own.
    error = 5.0 / np.sqrt(judge["effective_draws"].values)
    off = (found["guide_mean"].values - judge["guide_mean"].values) / sd
    assert np.all(np.abs(off) < 0.1 + error)
    assert np.all(np.abs(found["guide_sd"].values / sd - 1.0) < 0.1 + error / np.sqrt(2.0))


def check_record(logs, belief):
    ratio = belief["posterior/ratio"]
    assert "weights" not in belief["posterior"]
    assert ratio.dims == ("chain", "draw", "policy", "pair")
    assert ratio.pair.values[0] == "0, 0"
    assert (ratio.values > 0.0).all()
    # Of a log's own share of each pair it leaves the mass of one step.
    share = belief["constant_data/pair_count"].values / logs.n_transitions
    np.testing.assert_allclose((ratio.values @ share).mean(axis=(0, 1)), 1.0, atol=0.1)
    assert BeliefView(belief).settings["model"] == "table(1)"


def check_use(logs, policies, belief, folder):
    mpl.use("Agg")
    path = bd.save_belief(belief, folder / "belief.nc")
    again = bd.load_belief(path)
    np.testing.assert_array_equal(again["posterior/ratio"], belief["posterior/ratio"])
    assert again["posterior/ratio"].dims == belief["posterior/ratio"].dims
    choice = bd.select(again, bd.scores.regret(k=1))
    assert set(choice.order) == set(policies)
    assert "self-check" in str(bd.diagnose(again, logs, policies))
    for figure in (
        bd.plots.forest(again),
        bd.plots.rank_probabilities(again),
        bd.plots.loss_by_k(again, bd.scores.regret),
    ):
        bd.plots.save(figure, folder / "figure.png")
    plt.close("all")


def test_what_the_model_records_is_kept_under_its_name(by_svi):
    logs, _, belief = by_svi
    check_record(logs, belief)


def test_a_belief_is_chosen_from_diagnosed_kept_and_drawn(by_svi, tmp_path):
    check_use(*by_svi, tmp_path)


@pytest.mark.slow
def test_so_is_that_of_nuts(both, tmp_path):
    logs, policies, _, belief = both
    check_record(logs, belief)
    check_use(logs, policies, belief, tmp_path)


@pytest.mark.parametrize("options", [{}, {"constraint": bd.Constraint(value_constraint=False)}])
def test_the_closed_form_refuses_it_by_name(bandit, options):
    logs, policies, gamma = bandit
    with pytest.raises(SettingsError, match=r"the model table\(1\) has no closed form"):
        bd.fit(
            logs, policies, gamma=gamma, rng_key=KEY, model=Table(), inference="exact", **options
        )


def test_multipliers_of_a_guide_refuse_it_by_name(bandit):
    logs, policies, gamma = bandit
    constraint = bd.Constraint(inner="guide")
    with pytest.raises(SettingsError, match=r"inner='guide'.*the model table\(1\)"):
        bd.fit(logs, policies, gamma=gamma, rng_key=KEY, model=Table(), constraint=constraint)


def test_the_value_may_follow_from_its_ratio(bandit):
    logs, policies, gamma = bandit
    belief = bd.fit(
        logs,
        policies,
        gamma=gamma,
        rng_key=KEY,
        model=Table(),
        constraint=bd.Constraint(value_constraint=False),
        draws=100,
    )
    ratio, value = belief["posterior/ratio"].values[0], belief["posterior/value"].values[0]
    mean = [logs.reward[logs.action == arm].mean() for arm in (0, 1)]
    share = belief["constant_data/pair_count"].values / logs.n_transitions
    np.testing.assert_allclose(value, ratio @ (share * mean), rtol=1e-5)
