"""The five worked cases, fitted once for all the tests that ask about them."""

import json
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.inference import make_settings, solve
from bayesdice_ppl.preparation import prepare_fit

FOLDER = Path(__file__).parent.parent / "data" / "oracles"


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


@pytest.fixture(scope="session")
def worked_case():
    """Name -> `Case`, made on first use."""
    made = {}

    def make(name):
        if name not in made:
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
            settings = make_settings(**options)
            prepared = prepare_fit(logs, policies, settings)
            posterior = solve(prepared.problem, jax.random.key(0), settings).posterior
            mean, factor = (np.asarray(array) for array in posterior)
            sd = np.sqrt((factor**2).sum(axis=-1))
            made[name] = Case(logs, policies, options, expected, prepared, mean, sd)
        return made[name]

    return make
