"""Engines that turn the priced constraint into a posterior, and posteriors into joint draws."""

from bayesdice_ppl.constraint import Normalization
from bayesdice_ppl.inference.correction import Correction
from bayesdice_ppl.inference.dependence import Dependence, Unit
from bayesdice_ppl.inference.draws import Drawing, Draws, draw, value_covariance
from bayesdice_ppl.inference.engine import Engine, Solution, TrainingEngine, solve
from bayesdice_ppl.inference.engines import ENGINES, engine_choice
from bayesdice_ppl.inference.exact import Exact, no_closed_form
from bayesdice_ppl.inference.groups import Grouping
from bayesdice_ppl.inference.laplace import Laplace
from bayesdice_ppl.inference.minmax import MinMax
from bayesdice_ppl.inference.nuts import Nuts, run_nuts
from bayesdice_ppl.inference.one_model import (
    OneModelPosterior,
    one_model_constraint,
    one_model_posterior,
    stacked_covariance,
)
from bayesdice_ppl.inference.pilot import Pilot, run_pilot
from bayesdice_ppl.inference.pooling import PooledMeans, pooled_means
from bayesdice_ppl.inference.problem import FitForm, Problem, prepare
from bayesdice_ppl.inference.search import search_price
from bayesdice_ppl.inference.skewness import Rows, Tails
from bayesdice_ppl.inference.svi import Svi, run_svi
from bayesdice_ppl.inference.unseen import Unseen, UnseenPairs, add_unseen
from bayesdice_ppl.inference.value_alone import fit_value, prepare_values
from bayesdice_ppl.inference.weighting import WeightedValues, weighted_values

__all__ = [
    "ENGINES",
    "Correction",
    "Dependence",
    "Drawing",
    "Draws",
    "Engine",
    "Exact",
    "FitForm",
    "Grouping",
    "Laplace",
    "MinMax",
    "Normalization",
    "Nuts",
    "OneModelPosterior",
    "Pilot",
    "PooledMeans",
    "Problem",
    "Rows",
    "Solution",
    "Svi",
    "Tails",
    "TrainingEngine",
    "Unit",
    "Unseen",
    "UnseenPairs",
    "WeightedValues",
    "add_unseen",
    "draw",
    "engine_choice",
    "fit_value",
    "no_closed_form",
    "one_model_constraint",
    "one_model_posterior",
    "pooled_means",
    "prepare",
    "prepare_values",
    "run_nuts",
    "run_pilot",
    "run_svi",
    "search_price",
    "solve",
    "stacked_covariance",
    "value_covariance",
    "weighted_values",
]


_RENAMED = {"SviSettings": "Svi", "NutsSettings": "Nuts"}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(
            f"bayesdice_ppl.inference.{name} is now called {_RENAMED[name]}. Write "
            f"fit(..., inference={_RENAMED[name]}(...))."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
