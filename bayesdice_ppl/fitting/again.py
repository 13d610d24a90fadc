"""The settings of a belief, rebuilt from what it keeps, so that its logs can be fitted again.

A belief keeps its settings as text and numbers. Features and models have only their text, so they
are rebuilt where the text is that of the default for the log, and must be given elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import jax
from jaxtyping import PRNGKeyArray

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import BeliefError, SettingsError
from bayesdice_ppl.features import FeatureChoice, one_hot
from bayesdice_ppl.fitting.fit import settings_for
from bayesdice_ppl.fitting.settings import GROUPS, PRESETS, FitSettings
from bayesdice_ppl.inference import MinMax, Normalization, Nuts, Svi
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.models import RatioModel, linear

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


@final
class CallAgain(NamedTuple):
    """How a belief is asked for again.

    Attributes
    ----------
    changed
        Settings that are not at their defaults, by their flat names.
    arguments
        The same as arguments of `bayesdice_ppl.fit`, in Python.
    kept_as_text
        Settings that a belief keeps only as text, by their names: where they are not what `fit`
        takes for the log by itself, they have to be given as they were.
    """

    changed: dict[str, Any]
    arguments: tuple[str, ...]
    kept_as_text: dict[str, str]


def call_again(belief: BeliefView) -> CallAgain:
    """Say how a belief is asked for again.

    Parameters
    ----------
    belief
        From `bayesdice_ppl.fit`.
    """
    flat = belief.settings
    plain = FitSettings(flat["gamma"]).flat
    texts = ("features", "model", "normalization")
    kept = {name: str(flat[name]) for name in texts if flat.get(name) != plain[name]}
    implied = {"gamma", *texts, *_implied(flat)}
    if "features" in kept:
        # What follows from features that are not one-hot.
        implied |= {"link", "small_sample"}
    elif flat.get("link") is not None and flat["model"] == str(linear(flat["link"])):
        kept.pop("model", None)
    changed = {
        name: value
        for name, value in flat.items()
        if name not in implied and name in plain and value != plain[name]
    }
    changed["inference"] = flat["inference"]
    engine = changed.pop(flat["inference"], None)
    for name in _ENGINES:
        changed.pop(name, None)
    arguments, left = [f"gamma={flat['gamma']!r}"], dict(changed)
    if engine is None:
        arguments.append(f"inference={left.pop('inference')!r}")
    else:
        kind = _ENGINES[left.pop("inference")]
        usual = plain.get(flat["inference"], {})
        inside = [f"{key}={each!r}" for key, each in engine.items() if each != usual.get(key)]
        arguments.append(f"inference=bd.inference.{kind.__name__}({', '.join(inside)})")
        changed[flat["inference"]] = engine
    if left.get("link") is None:
        left.pop("link", None)
        changed.pop("link", None)
    else:
        arguments.append(f"model=bd.models.linear(link={left.pop('link')!r})")
    for group, (kind, names) in GROUPS.items():
        inside = [f"{names[name]}={left.pop(name)!r}" for name in tuple(left) if name in names]
        if inside:
            arguments.append(f"{group}=bd.{kind.__name__}({', '.join(inside)})")
    arguments += [f"{name}={value!r}" for name, value in left.items()]
    return CallAgain(changed, tuple(arguments), kept)


def _implied(flat: dict[str, Any]) -> set[str]:
    """Settings that a preset makes."""
    return set(PRESETS.get(str(flat.get("preset")), {}))
