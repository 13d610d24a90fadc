"""The five worked cases, fitted once for all the tests that ask about them."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import bayesdice_ppl as bd
from bayesdice_ppl.fitting import flat_settings, prepare_fit
from bayesdice_ppl.inference import solve

FOLDER = Path(__file__).parent / "data" / "oracles"


class Case(NamedTuple):
    """A worked case: what was asked, what is expected, and the closed form that was found."""

    logs: bd.Logs
    policies: bd.Policies
    options: dict
    expected: dict
    prepared: object
    mean: np.ndarray
    sd: np.ndarray

    def column(self, key):
        return np.array([self.expected["policies"][name][key] for name in self.policies])


@cache
def read_case(name):
    """A worked case by its name, fitted on first use."""
    folder = FOLDER / name
    expected = json.loads((folder / "expected.json").read_text())
    logs = bd.read_logs(folder / "logs.csv")
    policies = bd.read_policies(folder / "candidates.csv")
    options = {
        "gamma": expected["gamma"],
        "on_termination": expected["on_termination"],
        "inference": "exact",
        "small_sample": False,
    }
    settings = flat_settings(**options)
    prepared = prepare_fit(logs, policies, settings)
    key = jax.random.key(0)
    posterior = solve(
        prepared.problem, key, settings.form, settings.inference, settings.draws
    ).posterior
    mean, factor = (np.asarray(array) for array in posterior)
    sd = np.sqrt((factor**2).sum(axis=-1))
    return Case(logs, policies, options, expected, prepared, mean, sd)
