"""Feature maps: what the ratio and the multipliers can tell apart.

The tabular map, `one_hot`, is the default for labels: one feature for each state-action pair that
the log holds. For vectors there are `columns`, `polynomial`, `fourier` and, with any kernel,
`gaussian_process`. `table` and `function` take the user's own features. `product` and `concatenate`
combine maps.
"""

from typing import TYPE_CHECKING, Any

from bayesdice_ppl.features import kernels
from bayesdice_ppl.features.basis import (
    RotatedMap,
    principal_map,
    ratio_basis,
    standard_numbers,
    whitened_map,
)
from bayesdice_ppl.features.categories import one_hot
from bayesdice_ppl.features.columns import columns
from bayesdice_ppl.features.combinations import concatenate, product
from bayesdice_ppl.features.expectation import Expected, expect, expect_over_labels
from bayesdice_ppl.features.fourier import fourier
from bayesdice_ppl.features.given import function, table
from bayesdice_ppl.features.maps import (
    FeatureChoice,
    FeatureMap,
    GaussianMeanMap,
    Points,
    PriorFeatures,
    Space,
)
from bayesdice_ppl.features.polynomial import polynomial
from bayesdice_ppl.features.processes import gaussian_process
from bayesdice_ppl.features.sampling import (
    SampledActions,
    expect_over_samples,
    sample_actions,
    sampling_variance,
)

__all__ = [
    "Expected",
    "FeatureChoice",
    "FeatureMap",
    "GaussianMeanMap",
    "Points",
    "PriorFeatures",
    "RotatedMap",
    "SampledActions",
    "Space",
    "columns",
    "concatenate",
    "expect",
    "expect_over_labels",
    "expect_over_samples",
    "fourier",
    "function",
    "gaussian_process",
    "kernels",
    "one_hot",
    "polynomial",
    "principal_map",
    "product",
    "ratio_basis",
    "sample_actions",
    "sampling_variance",
    "standard_numbers",
    "table",
    "whitened_map",
]

if not TYPE_CHECKING:
    _MOVED = {"LoggedPairs", "Reach", "logged_pairs", "reach", "renormalize", "renormalize_pairs"}

    def __getattr__(name: str) -> Any:
        hint = f" Use bayesdice_ppl.moments.{name}." if name in _MOVED else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{hint}")
