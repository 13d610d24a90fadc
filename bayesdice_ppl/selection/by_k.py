"""How the expected loss falls as more policies may be tried: one selection for each k.

The selections stand alone: that of a larger k need not hold that of a smaller one.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from bayesdice_ppl.belief import Which, read_values
from bayesdice_ppl.errors import BayesDiceError, ScoreError
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection.selecting import select

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr

# The most k that are tried unless others are asked for.
_MOST = 10


def loss_by_k(
    belief: "xr.DataTree",
    make_score: Callable[[int], Score],
    ks: Iterable[int] | None = None,
    *,
    statistic: Which = "value",
    **select_options: Any,
) -> "pl.DataFrame":
    """Select for several k and tabulate the expected losses.

    Parameters
    ----------
    belief : xarray.DataTree
        As for `select`.
    make_score : callable
        Takes k and gives the score, such as `bayesdice_ppl.scores.regret`.
    ks : iterable of int, optional
        Which k, in the order of the rows; if left out, from the least that the score takes to 10,
        or to the number of policies.
    statistic : str
        As for `select`.
    **select_options
        Handed to `select`: `costs`, `budget`, `must_include`, and so on.

    Returns
    -------
    polars.DataFrame
        One row per k. `k`; `score`, its name; `expected_loss` and its Monte Carlo
        `standard_error`, in reward per step for regret, without a unit for most others; `launch`,
        list of the names that go live; `status` of the certificate; `gap`, how much lower the
        expected loss of another launch may be at most, null where nothing is known.

    Raises
    ------
    ScoreError
        If `make_score` is not called with a k or gives no score, or a k does not fit.
    BeliefError, SettingsError
        As `select` does.
    """
    import polars as pl

    n_policies = len(read_values(belief, statistic).names)
    rows = []
    for score in make_scores(make_score, ks, n_policies):
        choice = select(belief, score, statistic=statistic, **select_options)
        rows.append(
            {
                "k": choice.k,
                "score": choice.score,
                "expected_loss": choice.expected_loss,
                "standard_error": choice.loss_standard_error,
                "launch": choice.launch,
                "status": choice.certificate.status,
                "gap": choice.certificate.gap,
            }
        )
    columns: dict[str, Any] = {
        "k": pl.Int64,
        "score": pl.String,
        "expected_loss": pl.Float64,
        "standard_error": pl.Float64,
        "launch": pl.List(pl.String),
        "status": pl.String,
        "gap": pl.Float64,
    }
    return pl.DataFrame(rows, schema=columns)


def make_scores(
    make_score: Callable[[int], Score], ks: Iterable[int] | None, n_policies: int
) -> list[Score]:
    """Make a score for each k.

    Parameters
    ----------
    make_score : callable
        Takes k and gives a score.
    ks : iterable of int or None
        Which k; if None those of 1 to 10 that the score takes, at most `n_policies`.
    n_policies : int
        N.

    Raises
    ------
    ScoreError
        What is made has no k, or not the one asked for, or no k of 1 to 10 is taken.
    """
    if not callable(make_score):
        raise ScoreError(
            f"make_score: expected a function of k, such as scores.regret, found {make_score!r}."
        )
    if ks is not None and not isinstance(ks, Iterable):
        raise ScoreError(f"ks: expected a list of whole numbers, found {ks!r}.")
    if ks is not None:
        asked = [_made(make_score, k) for k in ks]
        if not asked:
            raise ScoreError(
                "ks: expected at least one k, found none. Leave it out for all k up to 10."
            )
        return asked
    scores: list[Score] = []
    refusal: BayesDiceError | None = None
    for k in range(1, min(n_policies, _MOST) + 1):
        try:
            score = _made(make_score, k)
            score.check(n_policies)
        except BayesDiceError as error:
            refusal = error
        else:
            scores.append(score)
    if refusal is not None and not scores:
        raise refusal
    return scores


def _made(make_score: Callable[[int], Score], k: int) -> Score:
    try:
        score = make_score(k)
    except TypeError as error:
        raise ScoreError(
            f"make_score: expected a function of k, found one that fails: {error}."
        ) from error
    if not isinstance(score, Score) or k not in (score.k, score.launches(k)):
        raise ScoreError(
            f"make_score({k!r}): expected a score with this k, such as scores.regret({k!r}), found "
            f"{score!r}."
        )
    return score
