"""NumPyro programs over moments, one file a form of the ratio, behind one Protocol."""

import numpyro

# ArviZ puts a lazy stand-in for numpyro into `sys.modules`. The package must run before its
# submodules are imported; reading any attribute makes it run.
_ = numpyro.__version__

from bayesdice_ppl.models.catalog import MODELS, model_choice
from bayesdice_ppl.models.coordinates import Coordinates, Start
from bayesdice_ppl.models.elimination import ValueAlone, eliminate, weight_prior
from bayesdice_ppl.models.feature_beliefs import (
    FeatureBeliefs,
    FeatureLog,
    LinearPolicyBelief,
    feature_beliefs,
    linear_policy_belief,
    prediction_covariance,
    without_growth,
)
from bayesdice_ppl.models.gaussian import GaussianPosterior
from bayesdice_ppl.models.gradients import StopScore, reverse_gradient
from bayesdice_ppl.models.joint import joint_model, joint_posterior
from bayesdice_ppl.models.linear import LinearModel, LinearRatio, linear, through_link
from bayesdice_ppl.models.links import LINKS, Link
from bayesdice_ppl.models.mean_deviation import (
    MeanDeviationModel,
    MeanDeviationRatio,
    TrainedRatio,
    mean_deviation,
)
from bayesdice_ppl.models.networks import Networks
from bayesdice_ppl.models.neural import NeuralModel, NeuralRatio, neural
from bayesdice_ppl.models.optimism import Optimism, quantile, variance
from bayesdice_ppl.models.optimistic import (
    Flow,
    FlowBeliefs,
    OptimisticModel,
    OptimisticRatio,
    counts_of,
    optimistic,
)
from bayesdice_ppl.models.pair_beliefs import (
    PairBeliefs,
    PairCounts,
    PairPrior,
    PolicyBelief,
    pair_beliefs,
    pair_prior,
    pair_variance,
    policy_belief,
)
from bayesdice_ppl.models.program import guide, model
from bayesdice_ppl.models.ratio import (
    DifferentiatedRatio,
    FirstEstimate,
    LinearGaussianRatio,
    PlainModel,
    Ratio,
    RatioModel,
    TrainedModel,
    jacobian_of,
    less_value,
    pair_slopes_of,
    value_prior,
)
from bayesdice_ppl.models.tangent import TangentRatio, tangent_at_mode

__all__ = [
    "LINKS",
    "MODELS",
    "Coordinates",
    "DifferentiatedRatio",
    "FeatureBeliefs",
    "FeatureLog",
    "FirstEstimate",
    "Flow",
    "FlowBeliefs",
    "GaussianPosterior",
    "LinearGaussianRatio",
    "LinearModel",
    "LinearPolicyBelief",
    "LinearRatio",
    "Link",
    "MeanDeviationModel",
    "MeanDeviationRatio",
    "Networks",
    "NeuralModel",
    "NeuralRatio",
    "Optimism",
    "OptimisticModel",
    "OptimisticRatio",
    "PairBeliefs",
    "PairCounts",
    "PairPrior",
    "PlainModel",
    "PolicyBelief",
    "Ratio",
    "RatioModel",
    "Start",
    "StopScore",
    "TangentRatio",
    "TrainedModel",
    "TrainedRatio",
    "ValueAlone",
    "counts_of",
    "eliminate",
    "feature_beliefs",
    "guide",
    "jacobian_of",
    "joint_model",
    "joint_posterior",
    "less_value",
    "linear",
    "linear_policy_belief",
    "mean_deviation",
    "model",
    "model_choice",
    "neural",
    "optimistic",
    "pair_beliefs",
    "pair_prior",
    "pair_slopes_of",
    "pair_variance",
    "policy_belief",
    "prediction_covariance",
    "quantile",
    "reverse_gradient",
    "tangent_at_mode",
    "through_link",
    "value_prior",
    "variance",
    "weight_prior",
    "without_growth",
]
