"""What a report says: everything on its page as plain tuples of texts and places, before any HTML.

The numbers are those of `bayesdice_ppl.select` and `bayesdice_ppl.diagnose`; nothing is computed
here that they do not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bayesdice_ppl._version import __version__
from bayesdice_ppl.belief import BeliefView, Which, read_values
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.reporting.chances import ChancesFigure, draw_chances
from bayesdice_ppl.reporting.citation import Citation, citations
from bayesdice_ppl.reporting.dependence import draw_dependence
from bayesdice_ppl.reporting.forest import ForestFigure, draw_forest
from bayesdice_ppl.reporting.losses import LossFigure, draw_losses
from bayesdice_ppl.reporting.maps import MapFigure
from bayesdice_ppl.reporting.places import draw_places
from bayesdice_ppl.reporting.priors import PriorFigure, draw_priors
from bayesdice_ppl.reporting.question import Question, ask
from bayesdice_ppl.reporting.ranking import Ranking, Rewards, tabulate, tabulate_rewards
from bayesdice_ppl.reporting.rerun import Rerun, run_again
from bayesdice_ppl.reporting.settings import Choices, read_choices
from bayesdice_ppl.reporting.support import SupportFigure, draw_support
from bayesdice_ppl.reporting.verdicts import Judgment, judge_all
from bayesdice_ppl.scores import Score
from bayesdice_ppl.selection import Selection

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.logs import Logs


@final
class Answer(NamedTuple):
    """The answer.

    Attributes
    ----------
    recommended
        Whether the ranking may be acted on.
    sentence
        The answer in one sentence.
    reasons
        Why there is no recommendation; empty where there is one.
    otherwise
        What the belief by itself would put first then; empty where there is a recommendation.
    """

    recommended: bool
    sentence: str
    reasons: tuple[str, ...]
    otherwise: str


@final
class Content(NamedTuple):
    """Everything on the page; a figure that the belief has nothing for is None.

    Attributes
    ----------
    question, answer, ranking, rewards
        What was asked, what is answered, and the tables behind it.
    forest, chances, places, losses, support, dependence, priors
        Figures.
    judgment
        Checks and verdicts.
    remarks
        Warnings, which begin with that word, and notes.
    choices, rerun, citations
        What was set, how to get it again, and what to cite.
    method
        Name of the baseline that made the belief; empty for BayesDICE.
    version
        Of this library, which made the page.
    """

    question: Question
    answer: Answer
    ranking: Ranking
    rewards: Rewards | None
    forest: ForestFigure
    chances: ChancesFigure
    places: MapFigure
    losses: LossFigure | None
    support: SupportFigure | None
    dependence: MapFigure | None
    priors: PriorFigure | None
    judgment: Judgment
    remarks: tuple[str, ...]
    choices: Choices
    rerun: Rerun
    citations: tuple[Citation, ...]
    method: str
    version: str


def put_together(
    belief: DataTree,
    score: Score,
    selection: Selection,
    options: Mapping[str, Any],
    *,
    source: str,
    logs: Logs | None = None,
    policies: Mapping[str, Any] | None = None,
) -> Content:
    """Put everything on the page together.

    Parameters
    ----------
    belief
        The belief.
    score
        What a ranking is judged by.
    selection
        What `bayesdice_ppl.select` gives for them.
    options
        What else it was given.
    source
        Name of the belief's file.
    logs, policies
        Those that it was fitted on, where they are at hand.
    """
    statistic: Which = options.get("statistic", "value")
    view, draws = BeliefView(belief), read_values(belief, statistic)
    own = not isinstance(statistic, Mapping) and str(statistic) == "value"
    judgment = judge_all(belief, selection.order, logs, policies)
    method = view.method
    return Content(
        question=ask(belief, score, selection, options),
        answer=_answer(selection),
        ranking=tabulate(selection, judgment.words),
        rewards=tabulate_rewards(selection),
        forest=draw_forest(selection, draws, _logged(view) if own else None),
        chances=draw_chances(selection),
        places=draw_places(selection, belief, statistic),
        losses=draw_losses(belief, score, len(selection.order), options),
        support=draw_support(selection, belief),
        dependence=draw_dependence(selection, draws),
        priors=draw_priors(selection, belief) if own else None,
        judgment=judgment,
        # The reasons stand beside the answer.
        remarks=tuple(each for each in selection.remarks if not each.startswith("Reason: ")),
        choices=read_choices(belief),
        rerun=run_again(belief, score, options, source),
        citations=citations(method),
        method=method,
        version=__version__,
    )


def _answer(selection: Selection) -> Answer:
    if selection.recommended:
        return Answer(True, selection.answer, (), "")
    why = "the logs cannot tell, as the numbers of some candidates cannot be trusted."
    if not selection.limits_met:
        why = "the limits leave nobody to go live."
    return Answer(
        False,
        f"No recommendation: {why}",
        tuple(selection.together(selection.reasons)),
        selection.otherwise,
    )


def _logged(view: BeliefView) -> float | None:
    try:
        return view.logged_value
    except BeliefError:
        # A belief of another program may use the attribute for something else.
        return None
