"""NumPyro programs: models and guides over moments, to read, trace, swap and run."""

import numpyro

# ArviZ leaves a lazy stand-in for numpyro in `sys.modules`; its submodules must not be imported
# before the package itself has run, which asking it for anything makes it do.
_ = numpyro.__version__

from bayesdice_ppl.models.gradients import StopScore, reverse_gradient
from bayesdice_ppl.models.joint import model as joint_model
from bayesdice_ppl.models.linear import (
    Coordinates,
    Start,
    by_ratio,
    guide,
    model,
    ratio_of,
    weight_of,
)

__all__ = [
    "Coordinates",
    "Start",
    "StopScore",
    "by_ratio",
    "guide",
    "joint_model",
    "model",
    "ratio_of",
    "reverse_gradient",
    "weight_of",
]
