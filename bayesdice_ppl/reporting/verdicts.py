"""What `bayesdice_ppl.diagnose` says, for a report: checks, and a verdict about each candidate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bayesdice_ppl.diagnostics import Check, Verdict, diagnose
from bayesdice_ppl.diagnostics.verdicts import GOOD, LOOK, REFUSE
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.reporting.ranking import fold

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesdice_ppl.logs import Logs


@final
class Judgment(NamedTuple):
    """Checks and verdicts.

    Attributes
    ----------
    summary
        How many candidates have each verdict; or why there is none.
    checks
        Those of the belief as a whole.
    verdicts, folded
        Of the candidates that are not simply good, in the order of the ranking; where they are
        many, those that follow are folded.
    words
        Candidate -> verdict.
    """

    summary: str
    checks: tuple[Check, ...]
    verdicts: tuple[Verdict, ...]
    folded: tuple[Verdict, ...]
    words: dict[str, str]


def judge_all(
    belief: DataTree,
    order: list[str],
    logs: Logs | None,
    policies: Mapping[str, Any] | None,
) -> Judgment:
    """Diagnose a belief; one of another method has no verdicts, and the reason is given.

    Parameters
    ----------
    belief
        The belief.
    order
        The candidates, in the order of the ranking.
    logs, policies
        Those that it was fitted on, where they are at hand.
    """
    try:
        found = diagnose(belief, logs, policies)
    except BeliefError as cause:
        return Judgment(f"No verdicts. {_sentence(cause)}", (), (), (), {})
    place = {name: i for i, name in enumerate(order)}
    ranked = sorted(found.verdicts, key=lambda verdict: place[verdict.policy])
    count = Counter(verdict.word for verdict in ranked)
    told = [f"{count[word]:,} {word}" for word in (GOOD, LOOK, REFUSE) if count[word]]
    # What is said of the support of a candidate is a reason of its verdict.
    checks = [check for check in found.checks if check.name != "support" or check.passed]
    first, folded = fold([verdict for verdict in ranked if verdict.reasons])
    return Judgment(
        f"{', '.join(told)}.",
        tuple(checks),
        first,
        folded,
        {verdict.policy: verdict.word for verdict in ranked},
    )


def _sentence(cause: Exception) -> str:
    text = str(cause).removeprefix("belief: ")
    return f"{text[:1].upper()}{text[1:]}"
