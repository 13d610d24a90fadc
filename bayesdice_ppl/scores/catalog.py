"""The list of scores by name, which the command line reads too.

To add a score, write its class and its function in a file of this folder, and list the function
here and in `bayesdice_ppl/scores/__init__.py`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from bayesdice_ppl.checks import one_of
from bayesdice_ppl.errors import BayesDiceError, SettingsError
from bayesdice_ppl.risk import Risk
from bayesdice_ppl.scores.rank_correlations import correlation, kendall, spearman
from bayesdice_ppl.scores.regrets import normalized_regret, regret, safe_improvement
from bayesdice_ppl.scores.score import Score
from bayesdice_ppl.scores.top_k import accuracy, ndcg, precision

CATALOG: dict[str, Callable[..., Score]] = {
    "regret": regret,
    "normalized_regret": normalized_regret,
    "precision": precision,
    "accuracy": accuracy,
    "correlation": correlation,
    "ndcg": ndcg,
    "spearman": spearman,
    "kendall": kendall,
    "safe_improvement": safe_improvement,
}
"""Name -> function that makes the score."""


def by_name(name: str, k: int, *, risk: Risk | None = None, **options: Any) -> Score:
    """Make a score of the catalog.

    Parameters
    ----------
    name : str
        One of `CATALOG`; a hyphen counts as an underscore.
    k : int
        How many of the best policies it is about; ignored by scores of the whole ranking.
    risk : Risk, optional
        Functional of the losses over draws; their mean if left out.
    **options
        What else the score takes: `baseline` and `xi` of safe_improvement. None stands for left
        out.

    Raises
    ------
    SettingsError
        There is no such score, an option does not belong to it, or one that it needs is missing;
        and what the score itself refuses.
    """
    name = one_of("score", name.replace("-", "_"), CATALOG)
    make = CATALOG[name]
    takes = inspect.signature(make).parameters
    given = {key: value for key, value in options.items() if value is not None}
    for option in given.keys() - takes.keys():
        raise SettingsError(f"{option}: expected none for score {name}, found {given[option]!r}.")
    given |= {"risk": risk} | ({"k": k} if "k" in takes else {})
    for option, parameter in takes.items():
        if parameter.default is inspect.Parameter.empty and option not in given:
            raise SettingsError(f"{option}: expected one for score {name}, found none.")
    return make(**given)


def options_of(score: Score) -> tuple[str, dict[str, Any]] | None:
    """Give the name of a score in the catalog, and what its function takes to make it again.

    Parameters
    ----------
    score : Score
        Any score.

    Returns
    -------
    tuple of str and dict, or None
        None for a score of one's own.
    """
    for name, make in CATALOG.items():
        options = {key: getattr(score, key, None) for key in inspect.signature(make).parameters}
        try:
            if make(**options) == score:
                return name, options
        except BayesDiceError:
            # The score lacks what this function takes.
            continue
    return None
