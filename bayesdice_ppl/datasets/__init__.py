"""Small logs that come with the package, for the demo, the tutorials and the tests."""

from bayesdice_ppl.datasets.bundled import OPEN_BANDIT_COLUMNS, Dataset, open_bandit

__all__ = ["OPEN_BANDIT_COLUMNS", "Dataset", "open_bandit"]
