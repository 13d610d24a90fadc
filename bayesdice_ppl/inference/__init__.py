"""Engines that turn the priced constraint into a posterior, and posteriors into joint draws."""

from bayesdice_ppl.inference.draws import Draws, draw, split_key
from bayesdice_ppl.inference.engine import Candidates, Problem, Solution, prepare, solve
from bayesdice_ppl.inference.exact import GaussianPosterior, exact_posterior
from bayesdice_ppl.inference.mcmc import NutsSettings, run_nuts
from bayesdice_ppl.inference.one_model import (
    OneModelPosterior,
    cross_covariance,
    one_model_constraint,
    one_model_posterior,
)
from bayesdice_ppl.inference.pilot import Pilot, run_pilot
from bayesdice_ppl.inference.price import search_price
from bayesdice_ppl.inference.settings import FitSettings, Normalization, make_settings
from bayesdice_ppl.inference.svi import SviSettings, run_svi

__all__ = [
    "Candidates",
    "Draws",
    "FitSettings",
    "GaussianPosterior",
    "Normalization",
    "NutsSettings",
    "OneModelPosterior",
    "Pilot",
    "Problem",
    "Solution",
    "SviSettings",
    "cross_covariance",
    "draw",
    "exact_posterior",
    "make_settings",
    "one_model_constraint",
    "one_model_posterior",
    "prepare",
    "run_nuts",
    "run_pilot",
    "run_svi",
    "search_price",
    "solve",
    "split_key",
]
