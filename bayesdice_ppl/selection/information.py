"""What more data could save: the value of knowing all policies' values, or one, before choosing.

Knowing more can only change the choice for the better, and by how much it lowers the expected loss
is the value of that information (Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961).
It is an upper bound on what any amount of further logs is worth, and says of which policy they are
worth most. All of it is computed from the belief's draws, without new ones.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import Which, read_statistic
from bayesdice_ppl.plain import plain_text
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection.certificate import standard_error
from bayesdice_ppl.selection.partial_information import losses_of, saved_by_knowing
from bayesdice_ppl.selection.perfect_information import least_losses
from bayesdice_ppl.selection.present_choice import SHOWN, present_choice, written_out
from bayesdice_ppl.selection.table import as_html, as_text

if TYPE_CHECKING:
    import polars as pl
    import xarray as xr


@final
@dataclass(frozen=True, eq=False, repr=False)
class InformationValue:
    """How much lower the expected loss would be if more were known before choosing.

    Attributes
    ----------
    perfect : float
        What knowing the values of all policies is worth: the expected value of perfect
        information. In units of the loss: reward per step for regret.
    standard_error : float
        Monte Carlo error of `perfect`, in the same units.
    table : polars.DataFrame
        One row per policy, the most valuable first, equals by name. `policy`;
        `value_of_information`, what knowing this policy's value alone is worth, never negative;
        `standard_error`, its Monte Carlo error; `share_of_perfect`, of all there is to gain.
    expected_loss : float
        Expected loss of the ranking that is selected now.
    order : list of str
        That ranking: see `bayesdice_ppl.Selection.order`.
    score : str
        Name of the score.
    statistic : str
        What the values are: `"mean"`, or another statistic of the reward of a step.
    n_draws : int
        How many draws the expectations are over.
    per_step : bool
        Whether losses are in reward per step, as regrets are, or have no unit.
    warnings : list of str
        What the belief says the logs cannot tell about the candidates. Values of information are
        under the belief: they do not see what it does not.
    """

    perfect: float
    standard_error: float
    table: "pl.DataFrame"
    expected_loss: float
    order: list[str]
    score: str
    statistic: str
    n_draws: int
    per_step: bool
    warnings: list[str]

    @property
    def answer(self) -> str:
        """One sentence that says what there is to gain, and of which policy to log more."""
        if self.perfect <= 0.0:
            return (
                "Nothing is left to gain: knowing every value would not change the expected "
                f"{self.score} loss."
            )
        unit = " per step" if self.per_step else f" in expected {self.score} loss"
        every = f"Knowing every value would save {self.perfect:.3g}{unit}"
        first = self.table.row(0, named=True)
        value = first["value_of_information"]
        if value <= 2 * first["standard_error"]:
            return f"{every}; no single policy's value would save more than these draws can show."
        name = first["policy"]
        return f"{every}; the value of {name!r} alone would save {value:.3g}: learn about it first."

    def __str__(self) -> str:
        return plain_text(
            "\n".join([self.answer, "", as_text(self._formatted()), *self._remarks()])
        )

    def __repr__(self) -> str:
        return f"InformationValue(perfect={self.perfect:.4g}, score={self.score!r})"

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self._remarks())
        return f"<p><b>{escape(self.answer)}</b></p>{as_html(self._formatted())}{remarks}"

    def _remarks(self) -> list[str]:
        left_out = len(self.table) - SHOWN
        more = [f"... and {left_out} more in the table"] if left_out > 0 else []
        return [*more, *(f"Warning: {warning}" for warning in self.warnings)]

    def _formatted(self) -> "pl.DataFrame":
        """Write the numbers out: values to three digits, shares in whole percent."""
        return written_out(
            self.table,
            {"value_of_information": ".3g", "standard_error": ".2g", "share_of_perfect": ".0%"},
        )


def value_of_information(
    belief: "xr.DataTree",
    score: Score,
    *,
    statistic: Which = "value",
    costs: Mapping[str, float] | None = None,
    budget: float | None = None,
    must_include: Collection[str] = (),
    must_exclude: Collection[str] = (),
) -> InformationValue:
    """Tell how much the expected loss would fall if values were known before choosing.

    Parameters
    ----------
    belief : xarray.DataTree
        As for `select`, with at least 100 draws.
    score : Score
        Precision, accuracy, a regret, ndcg, correlation, spearman or kendall, judged by its mean.
    statistic, costs, budget, must_include, must_exclude
        As for `select`. Under a budget only the regrets are supported, and correlation@k under no
        rules.

    Returns
    -------
    InformationValue
        The same for the same belief and score, always; policies with the same draws have the same
        numbers, and a policy whose value is certain has 0.

    Raises
    ------
    BeliefError
        The belief lacks draws or names, has fewer than 100 draws, or a value is not finite.
    ScoreError
        The score does not fit the candidates, or its best ranking of a draw is not known: see
        `bayesdice_ppl.selection.perfect_information.least_losses`.
    SettingsError
        No launch meets the rules.

    Notes
    -----
    *All values.* In each draw, the loss of the ranking that is selected now minus the least loss
    of any that is allowed; the mean of that.

    *One value.* If the value v_i were known, one would choose the ranking r of lowest
    E[loss(r) | v_i]. The candidates for r are the ranking selected now and good ones for the draws
    where v_i lies in an eighth or a half of its distribution; how their losses differ from the
    present one's is regressed on v_i by a cubic spline (Strong, Oakley and Brennan, "Estimating
    multiparameter partial expected value of perfect information from a probabilistic sensitivity
    analysis sample", 2014), and the lowest is chosen in each draw. Rankings and regressions come
    from three quarters of the draws, and the losses of what they choose are averaged over the
    fourth, each quarter in turn. So noise that misleads the choice is never counted as a gain: on
    average that mean is not above the true value, and below it by what a better choice would
    have gained, which grows with the number of rankings that are about as good (a tenth or so for
    100 policies and 4,000 draws). A mean below 0 is that noise alone, and is reported as 0. The
    work grows with the square of the number of policies: seconds for regret of 100, minutes for
    kendall.
    """
    now = present_choice(
        belief,
        score,
        "the value of information",
        statistic,
        costs=costs,
        budget=budget,
        must_include=must_include,
        must_exclude=must_exclude,
    )
    problem, names, selected = now.problem, now.names, now.selected
    gained = now.per_draw(losses_of(problem, [now.prefix])[0] - least_losses(problem, names))
    perfect = float(gained.mean())
    saved = [now.per_draw(saved_by_knowing(problem, now.prefix, i)) for i in range(len(names))]
    return InformationValue(
        perfect=perfect,
        standard_error=standard_error(gained),
        table=_table(names, saved, perfect),
        expected_loss=selected.expected_loss,
        order=selected.order,
        score=selected.score,
        statistic=read_statistic(belief, statistic),
        n_draws=now.n_draws,
        per_step=score.per_step,
        warnings=selected.warnings,
    )


def _table(
    names: tuple[str, ...], saved: list[Float[np.ndarray, "chain draw"]], perfect: float
) -> "pl.DataFrame":
    """Average what knowing each policy's value saves, the largest first."""
    import polars as pl

    value = [max(float(part.mean()), 0.0) for part in saved]
    rows = {
        "policy": list(names),
        "value_of_information": value,
        "standard_error": [standard_error(part) for part in saved],
        "share_of_perfect": [v / perfect if perfect > 0.0 else 0.0 for v in value],
    }
    by_value = ["value_of_information", "policy"]
    return pl.DataFrame(rows).sort(by_value, descending=[True, False])
