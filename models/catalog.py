"""Every model of the ratio by name. To add one, write it as a `RatioModel` and list it here."""

from __future__ import annotations

from collections.abc import Callable

from bayesdice_ppl import checks
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.models.linear import linear
from bayesdice_ppl.models.mean_deviation import mean_deviation
from bayesdice_ppl.models.neural import neural
from bayesdice_ppl.models.ratio import RatioModel

MODELS: dict[str, Callable[[], RatioModel]] = {
    "linear": linear,
    "neural": neural,
    "mean_deviation": mean_deviation,
}
"""Every model by name, as functions that make it."""


def model_choice(given: RatioModel | str) -> RatioModel:
    """Look a model up by name, or take one as it is.

    Raises
    ------
    SettingsError
        There is no such model.
    """
    if isinstance(given, str):
        return MODELS[checks.one_of("model", given, MODELS)]()
    if not isinstance(given, RatioModel):
        raise SettingsError(
            f"model: expected one of {checks.listed(MODELS)} or a RatioModel such as "
            f"bd.models.linear(), found {given!r}."
        )
    return given
