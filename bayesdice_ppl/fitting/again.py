"""The settings of a belief, rebuilt from what it keeps, so that its logs can be fitted again.

A belief keeps its settings as text and numbers. Features and models have only their text, so they
are rebuilt where the text is that of the default for the log, and must be given elsewhere.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.features import FeatureChoice, one_hot
from bayesdice_ppl.fitting.fit import settings_for
from bayesdice_ppl.fitting.settings import FitSettings
from bayesdice_ppl.inference import MinMax, Normalization, Nuts, Svi
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import RatioModel

_ENGINES = {"svi": Svi, "nuts": Nuts, "minmax": MinMax}
_OBJECTS = ("features", "model", "preset", "normalization", "inference", *_ENGINES)


def settings_again(
    belief: BeliefView,
    logs: Logs,
    *,
    features: FeatureChoice | None = None,
    model: RatioModel | None = None,
) -> FitSettings:
    """Rebuild the settings that a belief was fitted under.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`.
    logs
        The logs that it was fitted on; defaults depend on them.
    features, model
        Those that it was fitted with, where they are not the defaults.

    Raises
    ------
    BeliefError
        It was not made by `fit`, or its features or model cannot be rebuilt from their text.
    """
    flat = belief.settings
    if not flat or belief.method:
        found = f"one of the method {belief.method}" if belief.method else "another DataTree"
        raise BeliefError(f"belief: expected one from bayesdice_ppl.fit, found {found}.")
    chosen: dict[str, Any] = {name: each for name, each in flat.items() if name not in _OBJECTS}
    if flat.get("normalization"):
        chosen["normalization"] = Normalization(**flat["normalization"])
    chosen["inference"] = _engine(flat)
    if features is not None:
        chosen["features"] = features
    elif flat.get("features") == str(one_hot()):
        chosen["features"] = one_hot()
    if model is not None:
        chosen["model"] = model
        chosen.pop("link", None)
    elif flat.get("link") is None:
        chosen["model"] = flat["model"]
    try:
        settings = settings_for(logs, **{k: v for k, v in chosen.items() if v is not None})
    except SettingsError as cause:
        raise BeliefError(
            f"belief: its settings cannot be rebuilt ({cause}) Give features= and model= as it was "
            "fitted with."
        ) from cause
    for name in ("features", "model"):
        if settings.flat[name] != flat[name]:
            raise BeliefError(
                f"belief: expected to rebuild its {name} from the text {flat[name]!r}, found "
                f"{settings.flat[name]!r}. Give {name}= as it was fitted with."
            )
    return settings


def _engine(flat: dict[str, Any]) -> Any:
    """The engine with its settings; one without settings by its name."""
    name = flat["inference"]
    return _ENGINES[name](**flat[name]) if name in _ENGINES and name in flat else name


def key_again(belief: BeliefView) -> PRNGKeyArray:
    """The key that a belief was fitted with.

    Raises
    ------
    BeliefError
        The belief does not say.
    """
    words = belief.rng_key
    if not words:
        raise BeliefError("belief: expected the attribute rng_key, found none. Fit it again.")
    return jax.random.wrap_key_data(jax.numpy.asarray(words, dtype=jax.numpy.uint32))
