"""Candidates beside the log: how much of what they do was logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np

from bayesdice_ppl.checking.fault import ERROR, WARNING, Fault
from bayesdice_ppl.checking.section import Section
from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.fitting import FitSettings, prepare_fit
from bayesdice_ppl.fitting.inputs import Prepared
from bayesdice_ppl.fitting.support import measure_support, support_warnings
from bayesdice_ppl.fitting.units import in_units, units_of
from bayesdice_ppl.logs import Logs
from bayesdice_ppl.logs.labels import shown_all
from bayesdice_ppl.policies import ContinuousPolicy, Policy

KIND, UNSEEN = "candidates", "support"
HEADINGS = ("policy", "unlogged", "unknown", "effective rows", "top episode")


class JudgedCandidates(NamedTuple):
    """Candidates beside a log.

    Attributes
    ----------
    section
        What the log supports; None where the candidates cannot be used.
    faults
        Why not; or what is wrong with the support.
    thin
        Whether the log says too little about some of them for a recommendation.
    """

    section: Section | None
    faults: tuple[Fault, ...]
    thin: bool


def judge(
    logs: Logs, policies: Mapping[str, Policy | ContinuousPolicy], settings: FitSettings
) -> JudgedCandidates:
    """Compare every candidate with what was logged.

    Parameters
    ----------
    logs
        The log.
    policies
        Name -> candidate.
    settings
        The fit's settings.
    """
    try:
        measured = in_units(logs, units_of(logs, settings))
        # Features of vectors are random, and any will do to see what was logged.
        key = jax.random.key(0)
        prepared = prepare_fit(measured, policies, settings, key, guided=False, dependent=False)
    except BayesDiceError as error:
        return JudgedCandidates(None, (Fault(KIND, ERROR, "", str(error)),), thin=False)
    support = measure_support(prepared)
    names = prepared.inputs.names
    table = [
        {
            "policy": name,
            "unlogged_steps": float(support.moved_mass[j]),
            "unknown_steps": float(support.lost_mass[j]),
            "effective_transitions": float(support.effective_sample_size[j]),
            "top_episode": float(support.influential_episode_share[j]),
        }
        for j, name in enumerate(names)
    ]
    cells = tuple(
        (
            name,
            f"{support.moved_mass[j]:.2%}",
            f"{support.lost_mass[j]:.2%}",
            f"{support.effective_sample_size[j]:,.0f}",
            f"{support.influential_episode_share[j]:.0%}",
        )
        for j, name in enumerate(names)
    )
    unknown, lines = _unknown(prepared)
    found = support_warnings(names, support)
    faults = tuple(Fault(UNSEEN, WARNING, "", each.sentence) for each in found)
    facts = {
        "candidates": table,
        "unknown_states": unknown,
        "thin": sorted({each.policy for each in found if each.abstain}),
    }
    notes = getattr(policies, "notes", ())
    lines = (*lines, *(f"Note: {note}" for note in notes))
    section = Section("candidates", "What the log supports", facts, lines, HEADINGS, cells)
    return JudgedCandidates(section, faults, any(each.abstain for each in found))


def _unknown(prepared: Prepared) -> tuple[dict[str, list[object]], tuple[str, ...]]:
    """States that candidates reach and in which the log has none of their actions."""
    inputs = prepared.inputs
    if inputs.dead_state is None or inputs.logs.vector_states:
        return {}, ()
    labels = inputs.logs.state_labels
    found = {}
    for name, dead in zip(inputs.names, np.asarray(inputs.dead_state), strict=True):
        states = labels[: len(dead)][dead[: len(labels)]]
        if len(states):
            found[name] = list(states)
    plain = {name: [_plain(each) for each in states[:100]] for name, states in found.items()}
    lines = tuple(
        f"{name} reaches states in which none of its actions were logged: {shown_all(states, 5)}."
        for name, states in list(found.items())[:5]
    )
    if len(found) > 5:
        lines += (f"So do {len(found) - 5:,} more candidates.",)
    return plain, lines


def _plain(label: object) -> object:
    return label.item() if isinstance(label, np.generic) else label
