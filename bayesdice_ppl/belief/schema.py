"""What a belief holds: every group, variable and attribute, in one table.

The class `BeliefView` lists the entries: name, group, dims, unit and meaning. An object of it reads
them from one belief, with their types. Nothing else in the library spells the name of an entry as
text. The parameters of the ratio are the exception: its model names them itself (`OwnVariables`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, final, overload

import numpy as np

from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.logs.logged_value import LoggedValue

if TYPE_CHECKING:
    from xarray import DataTree

GROUPS: Final[Mapping[str, str]] = {
    "posterior": "Draws of the values, and of the parameters of the ratio.",
    "sample_stats": "The chance constraint's loss of each draw.",
    "observed_data": "The rewards that the belief rests on.",
    "constant_data": "What is known of each candidate: moments, price, constraint, support.",
    "fit_data": "The course of the optimization, where there was one.",
}
"""Every group and what it holds. Draws have the dims (chain, draw) before their own."""
ADDED: Final[Mapping[str, str]] = {
    "log_likelihood": "chance_constraint: share of each episode, or row, of the log factor.",
    "prior": "value, and the parameters of the ratio: draws of their prior.",
    "log_prior": "Log prior density of the parameters of each draw, by candidate.",
    "posterior_predictive": "reward: rewards that one candidate would earn in steps like these.",
}
"""Groups that are made on demand (`bayesdice_ppl.groups`), for ArviZ's functions."""
_LONGEST: Final = 200
"""Characters of an attribute that a message shows."""
DRAWN: Final = ("posterior", "sample_stats")
"""Groups of draws."""
SUPPORT: Final = ("moved_mass", "lost_mass", "effective_sample_size", "negative_mass")
"""Variables that tell selection how well the logs cover a candidate."""


@final
class SupportWarning(NamedTuple):
    """One thing that the logs cannot tell about one candidate.

    Attributes
    ----------
    policy
        The candidate.
    reason
        What is missing, as a sentence whose subject is the candidate.
    abstain
        Whether it is bad enough that no recommendation should be made.
    name
        Its gauge, such as ``"degrees of freedom"``; empty where it has none.
    number, threshold
        The number that was judged, and the threshold that it is past; None where there is none.
    """

    policy: str
    reason: str
    abstain: bool
    name: str = ""
    number: float | None = None
    threshold: float | None = None

    @property
    def sentence(self) -> str:
        """The reason, with the candidate's name."""
        return f"{self.policy}: {self.reason}"


@final
class OwnVariables(NamedTuple):
    """What a model of the ratio keeps in a belief: variable -> (array, dims).

    Attributes
    ----------
    draws
        Parameters of the ratio, for `posterior`. The array has the draws first, shape (S, ...);
        the dims are those after them, the first usually ``policy``.
    constants
        What the parameters belong to, for `constant_data`.
    coords
        Labels of dims that only these variables have.
    """

    draws: Mapping[str, tuple[np.ndarray, tuple[str, ...]]] = {}
    constants: Mapping[str, tuple[np.ndarray, tuple[str, ...]]] = {}
    coords: Mapping[str, Sequence[str]] = {}


@final
class Variable:
    """One variable of a belief: the entry of the table, and the array when read from a view.

    Parameters
    ----------
    group
        The group that holds it.
    dims
        Its dims, after (chain, draw) in a group of draws.
    unit
        The unit of its numbers; empty where they have none.
    meaning
        What it is, in a sentence.
    text
        Whether it holds labels, and not numbers.
    """

    def __init__(
        self, group: str, dims: tuple[str, ...], unit: str, meaning: str, *, text: bool = False
    ) -> None:
        self.group, self.dims, self.unit, self.meaning = group, dims, unit, meaning
        self.text = text

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, view: None, owner: type) -> Self: ...
    @overload
    def __get__(self, view: BeliefView, owner: type) -> np.ndarray: ...
    def __get__(self, view: BeliefView | None, owner: type) -> Self | np.ndarray:
        if view is None:
            return self
        try:
            array = np.asarray(view.belief[self.group][self.name].to_numpy())
        except KeyError as cause:
            raise BeliefError(
                f"belief: expected {self.group}/{self.name}, found none. "
                "Use a belief from bayesdice_ppl.fit."
            ) from cause
        if not self.text and array.dtype.kind not in "biuf":
            raise BeliefError(
                f"belief: expected numbers in {self.group}/{self.name}, found {array.dtype}. Use a "
                "belief from bayesdice_ppl.fit."
            )
        return array


@final
class Attribute[T]:
    """One attribute of a belief: the entry of the table, and its content when read from a view.

    Parameters
    ----------
    kind
        What its content is, for error messages and for the table.
    read
        From the stored text or number to the content. None stands for an attribute that the
        belief does not have.
    meaning
        What it is, in a sentence.
    """

    def __init__(self, kind: str, read: Callable[[Any], T], meaning: str) -> None:
        self.kind, self.read, self.meaning = kind, read, meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, view: None, owner: type) -> Self: ...
    @overload
    def __get__(self, view: BeliefView, owner: type) -> T: ...
    def __get__(self, view: BeliefView | None, owner: type) -> Self | T:
        if view is None:
            return self
        stored = view.belief.attrs.get(self.name)
        try:
            return self.read(stored)
        except Exception as cause:
            # JSON that is too deep, numbers that are too large, entries of another kind.
            raise BeliefError(
                f"attribute {self.name} of the belief: expected {self.kind}, found "
                f"{_shortened(stored)}. Was the file edited?"
            ) from cause


def _shortened(stored: Any) -> str:
    """The start of what is stored, for a message."""
    text = repr(stored)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _text(stored: Any) -> str:
    return "" if stored is None else str(stored)


def _count(stored: Any) -> int:
    return 0 if stored is None else int(stored)


def _seed(stored: Any) -> int | None:
    return None if stored is None else int(stored)


def _number(stored: Any) -> float | None:
    number = None if stored is None else float(stored)
    if number is not None and not np.isfinite(number):
        raise ValueError(f"{stored!r} is not finite")
    return number


def _error(stored: Any) -> float:
    return float("nan") if stored is None else float(stored)


def _object(stored: Any) -> dict[str, Any]:
    content = {} if stored is None else json.loads(stored)
    if not isinstance(content, dict):
        raise TypeError(f"{stored!r} is not an object")
    return content


def _list(stored: Any) -> list[Any]:
    content = [] if stored is None else json.loads(stored)
    if not isinstance(content, list):
        raise TypeError(f"{stored!r} is not a list")
    return content


def _warnings(stored: Any) -> tuple[SupportWarning, ...] | None:
    if stored is None:
        return None
    found = [
        SupportWarning(
            each["policy"],
            each["reason"],
            each["abstain"] is True,
            each.get("name", ""),
            _optional(each.get("number")),
            _optional(each.get("threshold")),
        )
        for each in _list(stored)
    ]
    if not all(isinstance(text, str) for e in found for text in (e.policy, e.reason, e.name)):
        raise TypeError("a policy, a reason or a name is not text")
    return tuple(found)


def _warnings_by_name(stored: Any) -> dict[str, tuple[SupportWarning, ...]]:
    return {name: _warnings(json.dumps(each)) or () for name, each in _object(stored).items()}


def _optional(stored: Any) -> float | None:
    return None if stored is None else float(stored)


_STEP = "reward per step"
_P, _PP = ("policy",), ("policy", "other_policy")
_DATA = "constant_data"


@final
@dataclass(frozen=True, slots=True)
class BeliefView:
    """The schema of a belief, and its typed reading.

    ``BeliefView.guide_mean`` is the entry in the table; ``BeliefView(belief).guide_mean`` is the
    array. A variable that is missing raises `BeliefError`; an attribute that is missing reads as
    empty, 0 or None.

    Attributes
    ----------
    belief
        The DataTree.
    """

    belief: DataTree

    # Variables: group, dims, unit, meaning.
    value = Variable("posterior", _P, _STEP, "Value of the candidate: the first statistic.")
    loss = Variable("sample_stats", _P, "", "Loss ell of the draw in the chance constraint.")
    reward = Variable("observed_data", ("transition",), "reward", "Reward of each row used.")
    guide_mean = Variable(_DATA, _P, _STEP, "Location of the value: its mean without skewness.")
    guide_sd = Variable(_DATA, _P, _STEP, "Posterior scale of the value, of its Student t.")
    degrees_of_freedom = Variable(_DATA, _P, "", "Degrees of freedom of the value's Student t.")
    skewness = Variable(_DATA, _P, "", "Skewness of the error of the value's estimate.")
    effective_errors = Variable(_DATA, _P, "", "Effective number of errors that make the width.")
    tail_index = Variable(_DATA, _P, "", "Index of the rewards' tail; NaN if it matters little.")
    svi_drift = Variable(_DATA, _P, "sd", "Largest move of mean or sd in SVI's last window.")
    prior_mean = Variable(_DATA, _P, _STEP, "Prior mean of the value; NaN for a quantile.")
    prior_sd = Variable(_DATA, _P, _STEP, "Prior sd of the value; NaN for a quantile.")
    correlation = Variable(_DATA, _PP, "", "Correlation of the values' normal scores.")
    lam = Variable(_DATA, _P, "nats", "Price lambda of the chance constraint.")
    epsilon = Variable(_DATA, _P, "", "Bound epsilon on the loss.")
    xi = Variable(_DATA, _P, "", "Probability xi for which the constraint was priced.")
    constraint_probability = Variable(_DATA, _P, "", "P(ell <= epsilon) under the belief.")
    surrogate_level = Variable(_DATA, _P, "", "Level t of the surrogate.")
    surrogate_bound = Variable(_DATA, _P, "", "Bound of the surrogate on P(ell > epsilon).")
    normalization_lam = Variable(_DATA, _P, "nats", "Price of the normalization's constraint.")
    normalization_epsilon = Variable(_DATA, _P, "", "Bound on the normalization's loss.")
    normalization_probability = Variable(_DATA, _P, "", "Probability that this bound holds.")
    r_hat = Variable(_DATA, _P, "", "Split R-hat of the value's chains, of NUTS.")
    effective_draws = Variable(_DATA, _P, "draws", "Effective number of draws, of NUTS.")
    diverging = Variable(_DATA, _P, "", "Share of divergent transitions, of NUTS.")
    moved_mass = Variable(_DATA, _P, "", "Share of steps with an action not logged in that state.")
    lost_mass = Variable(_DATA, _P, "", "Share of steps after a state without a logged action.")
    effective_sample_size = Variable(_DATA, _P, "transitions", "(sum zeta)^2 / sum zeta^2.")
    influential_episode_share = Variable(_DATA, _P, "", "Largest episode's share of the evidence.")
    negative_mass = Variable(_DATA, _P, "", "Negative share of the mass of the pilot's ratio.")
    capped_share = Variable(_DATA, _P, "", "Share of the action ratio's weight above its cap.")
    error_inflation = Variable(_DATA, _P, "", "Width over that if rows were independent.")
    outside_share = Variable(_DATA, _P, "", "Share of simulated time outside the log.")
    j_statistic = Variable(_DATA, _P, "", "Hansen's J on functions that were not fitted.")
    j_tests = Variable(_DATA, _P, "", "Number of directions that J tests; 0: not judged.")
    j_p_value = Variable(_DATA, _P, "", "Probability of a larger J under a right ratio.")
    unseen_mass = Variable(
        _DATA, ("policy", "unseen_pair"), "", "Share of steps at each pair that was never logged."
    )
    unseen_base = Variable(_DATA, _P, _STEP, "What these steps count in a value without them.")
    unseen_shift = Variable(_DATA, _P, _STEP, "What pairs never logged add to the value's mean.")
    unseen_share = Variable(_DATA, _P, "", "Their share of the value's variance.")
    unseen_covariance = Variable(_DATA, _PP, "(reward per step)^2", "Covariance of what they add.")
    unseen_spread = Variable(_DATA, _P, _STEP, "Sd of one such pair's worth.")
    unseen_move = Variable(
        _DATA,
        ("policy", "unseen_pair"),
        _STEP,
        "Sd of what the value's mean would move by if the pair's worth were known.",
    )
    unseen_alike = Variable(_DATA, _PP, "", "Correlation of such a pair's worth to two candidates.")
    unseen_state = Variable(
        _DATA, ("unseen_pair",), "", "State of each pair that was never logged.", text=True
    )
    unseen_action = Variable(_DATA, ("unseen_pair",), "", "Its action.", text=True)
    action_standard_error = Variable(_DATA, _P, _STEP, "Error from drawing actions; 0 if exact.")
    elbo = Variable("fit_data", ("policy", "step"), "nats", "ELBO at each step of SVI.")

    # Attributes: kind, reader, meaning.
    settings = Attribute("a JSON object", _object, "Every choice behind the belief.")
    versions = Attribute("a JSON object", _object, "Versions of the packages that made it.")
    rng_key = Attribute("a JSON list", _list, "Words of the JAX key.")
    seed = Attribute("a whole number", _seed, "Seed of the key, where the command line drew it.")
    method = Attribute("text", _text, "Name of the baseline; empty for BayesDICE.")
    engine = Attribute("text", _text, "How the posterior was found, and whether in closed form.")
    chains = Attribute("text", _text, "What its chains are, and whether R-hat means something.")
    without_draws = Attribute("text", _text, "Why it has no draws of the ratio; else empty.")
    unit = Attribute("a JSON object", _object, "The unit of independence, and what was looked at.")
    n_transitions = Attribute("a whole number", _count, "Logged transitions.")
    n_episodes = Attribute("a whole number", _count, "Logged episodes.")
    n_terminated = Attribute("a whole number", _count, "Transitions that ended an episode.")
    rows_left_out = Attribute("a whole number", _count, "Transitions without a known successor.")
    steps_left_out = Attribute("a JSON list", _list, "Steps of which all rows are left out.")
    action_space = Attribute("text", _text, "Where the action space comes from.")
    n_actions = Attribute("a whole number", _count, "Actions in it; 0 for vectors.")
    reward_range = Attribute(
        "a JSON list of two numbers",
        _list,
        "Least and largest reward, if rewards are not kept.",
    )
    reward_sd = Attribute("a finite number", _number, "Sd of the rewards used, per step.")
    clone = Attribute("a JSON object", _object, "How well the logging policy was cloned.")
    logged_policy = Attribute("text", _text, "Name of the candidate that is the logging policy.")
    logged_value = Attribute("a finite number", _number, "Value that the logs earned, per step.")
    logged_value_standard_error = Attribute("a number", _error, "Its standard error.")
    logged_value_tail = Attribute("a number", _error, "Share of discounted weight not logged.")
    support_warnings = Attribute(
        "a JSON list of objects with policy, reason and abstain",
        _warnings,
        "What the logs cannot tell, by candidate; None where it was not checked.",
    )
    rewards = Attribute("a JSON list", _list, "Names of several rewards; the first is the value's.")
    other_warnings = Attribute(
        "a JSON object of lists of such objects",
        _warnings_by_name,
        "What the logs cannot tell of the values of the other rewards, by their names.",
    )
    notes = Attribute("a JSON list", _list, "What was done to the numbers that were given.")
    regularization = Attribute("a JSON list", _list, "Features and priors compared, by their loss.")

    def has(self, variable: Variable) -> bool:
        """Whether the belief has a variable, such as ``BeliefView.elbo``."""
        groups = self.belief.children
        return variable.group in groups and variable.name in groups[variable.group].data_vars

    @property
    def names(self) -> list[str]:
        """Names of the candidates."""
        return [str(name) for name in self.belief["posterior"]["policy"].to_numpy()]

    @property
    def earned(self) -> LoggedValue | None:
        """What the logs themselves earned; None where the belief does not say."""
        value = self.logged_value
        if value is None:
            return None
        return LoggedValue(value, self.logged_value_standard_error, self.logged_value_tail)


def entries() -> dict[str, Variable | Attribute[Any]]:
    """The table: every variable and attribute of a belief by its name."""
    table = vars(BeliefView)
    return {name: table[name] for name in table if isinstance(table[name], Variable | Attribute)}
