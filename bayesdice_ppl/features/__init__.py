"""Feature maps: what the ratio and the multipliers can tell apart.

The tabular map, `one_hot`, is the default for labels: one feature for each state-action pair that
the log holds. For vectors there are `polynomial` and `fourier`; `table` and `function` take the
user's own; `product` and `concatenate` combine them; `gaussian_process` takes any kernel.
"""

from bayesdice_ppl.features import kernels
from bayesdice_ppl.features.categories import one_hot
from bayesdice_ppl.features.combinations import concatenate, product
from bayesdice_ppl.features.expectation import (
    SampledActions,
    expect_over_labels,
    expect_over_samples,
    principal_map,
    ratio_basis,
    sample_actions,
    sampling_variance,
)
from bayesdice_ppl.features.fourier import fourier
from bayesdice_ppl.features.given import function, table
from bayesdice_ppl.features.maps import FeatureChoice, FeatureMap, Points, Space
from bayesdice_ppl.features.pairs import (
    LoggedPairs,
    Reach,
    logged_pairs,
    reach,
    renormalize,
    renormalize_pairs,
)
from bayesdice_ppl.features.polynomial import polynomial
from bayesdice_ppl.features.processes import gaussian_process

__all__ = [
    "FeatureChoice",
    "FeatureMap",
    "LoggedPairs",
    "Points",
    "Reach",
    "SampledActions",
    "Space",
    "concatenate",
    "expect_over_labels",
    "expect_over_samples",
    "fourier",
    "function",
    "gaussian_process",
    "kernels",
    "logged_pairs",
    "one_hot",
    "polynomial",
    "principal_map",
    "product",
    "ratio_basis",
    "reach",
    "renormalize",
    "renormalize_pairs",
    "sample_actions",
    "sampling_variance",
    "table",
]
