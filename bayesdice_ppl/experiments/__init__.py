"""The paper's experiments and some that it does not show, one module each, by one command.

`make_experiment` gives an experiment by its name; `reproduce` runs it in several processes, goes on
where it was interrupted, and writes its rows, a summary, a table and a figure.
"""

from bayesdice_ppl.experiments.catalog import NAMES, make_experiment, worlds_of
from bayesdice_ppl.experiments.experiment import Experiment
from bayesdice_ppl.experiments.run import Progress, Written, reproduce
from bayesdice_ppl.experiments.trials import Cell, Trial, deal

__all__ = [
    "NAMES",
    "Cell",
    "Experiment",
    "Progress",
    "Trial",
    "Written",
    "deal",
    "make_experiment",
    "reproduce",
    "worlds_of",
]
