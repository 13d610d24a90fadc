"""From logs and candidates to a belief: settings, preparation, the fit, warnings, layout."""

from bayesdice_ppl.fitting.defaults import default_features
from bayesdice_ppl.fitting.fit import fit, fit_flat, settings_for
from bayesdice_ppl.fitting.inputs import Inputs, Prepared
from bayesdice_ppl.fitting.prepare import prepare, prepare_fit, read_inputs
from bayesdice_ppl.fitting.settings import FitSettings, Numerics, flat_settings
from bayesdice_ppl.fitting.unseen import latent_pairs, unseen_from

__all__ = [
    "FitSettings",
    "Inputs",
    "Numerics",
    "Prepared",
    "default_features",
    "fit",
    "fit_flat",
    "flat_settings",
    "latent_pairs",
    "prepare",
    "prepare_fit",
    "read_inputs",
    "settings_for",
    "unseen_from",
]
