"""The Open Bandit sample: real clicks under a uniformly random policy, and five candidates.

Clicks are rare (46 in 10,000 impressions), so an honest belief is wide.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from bayesdice_ppl.logs import Logs, read_logs
from bayesdice_ppl.policies import Policies, read_policies

OPEN_BANDIT_COLUMNS = {
    "action": "item_id",
    "state": "position",
    "reward": "click",
    "propensity": "propensity_score",
}
"""Our column names -> those of the Open Bandit log."""


class Dataset(NamedTuple):
    """Logs, candidates, and the files they come from."""

    logs: Logs
    policies: Policies
    logs_path: Path
    policies_path: Path


def open_bandit() -> Dataset:
    """Load the Open Bandit sample (gamma = 0).

    Returns
    -------
    Dataset
        10,000 logged impressions, each an episode of its own, and five candidates.

    References
    ----------
    ZOZO, Inc., "Open Bandit Dataset"; Saito, Aihara, Matsutani, Narita, 2020, arXiv:2008.07146.
    """
    folder = Path(str(files("bayesdice_ppl.datasets").joinpath("open_bandit")))
    logs, policies = folder / "logs.parquet", folder / "candidates.parquet"
    return Dataset(
        read_logs(logs, columns=OPEN_BANDIT_COLUMNS), read_policies(policies), logs, policies
    )
