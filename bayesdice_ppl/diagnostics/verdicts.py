"""A verdict about each candidate: good, look, or do not use, with its reasons.

Every check that names a candidate is a reason: a number past its threshold, and where it is
explained. A reason for which a belief abstains makes the verdict "do not use".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bayesdice_ppl.belief import BeliefView, SupportWarning, read_warnings

GOOD, LOOK, REFUSE = "good", "look", "do not use"


@final
class Reason(NamedTuple):
    """Why a candidate is not simply good.

    Attributes
    ----------
    check
        What was checked: a gauge, or a check of `bayesdice_ppl.diagnose`.
    sentence
        What was found.
    number, threshold
        The number, and the threshold that it is past; None where there is none.
    refuses
        Whether the candidate's belief is of no use.
    link
        Where it is explained.
    """

    check: str
    sentence: str
    number: float | None
    threshold: float | None
    refuses: bool
    link: str


@final
class Verdict(NamedTuple):
    """The verdict about one candidate.

    Attributes
    ----------
    policy
        The candidate.
    reasons
        What was found, the worst first; empty where it is good.
    """

    policy: str
    reasons: tuple[Reason, ...]

    @property
    def word(self) -> str:
        """``"good"``, ``"look"`` or ``"do not use"``."""
        if any(reason.refuses for reason in self.reasons):
            return REFUSE
        return LOOK if self.reasons else GOOD

    def __str__(self) -> str:
        told = [f"{self.policy}: {self.word}"]
        for reason in self.reasons:
            figure = ""
            if reason.number is not None and reason.threshold is not None:
                figure = f" ({reason.number:.3g}, threshold {reason.threshold:.3g})"
            told.append(f"    {reason.check}{figure}: {reason.sentence} See {reason.link}.")
        return "\n".join(told)


def warnings_of(view: BeliefView) -> list[SupportWarning]:
    """What a belief warns of, of every reward that it has; the reasons say of which."""
    if not view.rewards:
        return list(view.support_warnings or ())
    every = dict.fromkeys(map(str, view.rewards), 1.0)
    return read_warnings(view.belief, tuple(view.names), every) or []


def of_gauge(warning: SupportWarning) -> Reason:
    """A reason from a warning of the belief about itself."""
    anchor = warning.name.replace(" ", "-")
    return Reason(
        warning.name or "support",
        warning.reason,
        warning.number,
        warning.threshold,
        warning.abstain,
        f"docs/warnings.md#{anchor}" if anchor else "docs/warnings.md",
    )


def of_numbers(
    check: str,
    sentence: str,
    names: Iterable[str],
    numbers: Float[np.ndarray, " N"],
    threshold: float,
) -> dict[str, Reason]:
    """Candidate -> reason, for those whose number is past a threshold, or is none.

    Parameters
    ----------
    check
        What was checked.
    sentence
        What a number past the threshold means.
    names, numbers
        The candidates and their numbers.
    threshold
        The highest number that is sound.
    """
    anchor = check.replace(" ", "-")
    return {
        name: Reason(
            check,
            sentence,
            float(number) if np.isfinite(number) else None,
            threshold,
            False,
            f"docs/diagnostics.md#{anchor}",
        )
        for name, number in zip(names, numbers, strict=True)
        if not number <= threshold
    }


def verdicts(
    view: BeliefView, found: Iterable[dict[str, Reason]], of_all: Iterable[Reason] = ()
) -> tuple[Verdict, ...]:
    """The verdict about each candidate of a belief.

    Parameters
    ----------
    view
        The belief, with its warnings.
    found
        Candidate -> reason, of each further check.
    of_all
        Reasons that concern every candidate.
    """
    warnings, more, shared = warnings_of(view), list(found), tuple(of_all)
    made = []
    for name in view.names:
        reasons = [of_gauge(warning) for warning in warnings if warning.policy == name]
        reasons += [each[name] for each in more if name in each]
        reasons += shared
        made.append(Verdict(name, tuple(sorted(reasons, key=lambda reason: not reason.refuses))))
    return tuple(made)
