"""Which launches are allowed at all: a budget, candidates that must go live, others that must not.

A ranking is allowed if the policies that it launches, its first places, are. What a score holds
the launch against does not change: a candidate that must not go live may still be the best.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.losses import Score

# Costs are sums of decimals: a set that costs the budget to the last digit is within it.
_ROUNDING = 1e-9


@final
class Rules(NamedTuple):
    """What a set of policies has to meet to be launched.

    Attributes
    ----------
    required
        Policies that must be launched.
    excluded
        Policies that must not.
    cost
        Cost of launching each, not negative; zeros where there is no budget.
    budget
        Most that a launch may cost, in units of `cost`; infinite where there is none.
    """

    required: Bool[np.ndarray, " N"]
    excluded: Bool[np.ndarray, " N"]
    cost: Float[np.ndarray, " N"]
    budget: float

    @property
    def free(self) -> bool:
        """Whether every set is allowed."""
        return not (self.required.any() or self.excluded.any() or np.isfinite(self.budget))

    @property
    def limit(self) -> float:
        """The budget, with room for the rounding of sums."""
        return self.budget + _ROUNDING * abs(self.budget) if np.isfinite(self.budget) else np.inf

    def permuted(self, order: Int[np.ndarray, " N"]) -> "Rules":
        """Give the same rules for policies listed in another order."""
        return Rules(self.required[order], self.excluded[order], self.cost[order], self.budget)

    def allow(self, sets: Int[np.ndarray, "R j"]) -> Bool[np.ndarray, " R"]:
        """Tell which sets of j policies, rows of indices, may be launched.

        Parameters
        ----------
        sets : Int[ndarray, "R j"]
            Indices of distinct policies.

        Returns
        -------
        Bool[ndarray, "R"]
            True where all required are there, none that is excluded is, and the budget holds.
        """
        return (
            (self.required[sets].sum(axis=1) == self.required.sum())
            & ~self.excluded[sets].any(axis=1)
            & (self.cost[sets].sum(axis=1) <= self.limit)
        )


def no_rules(n_policies: int) -> Rules:
    """Allow every set."""
    none = np.zeros(n_policies, bool)
    return Rules(none, none, np.zeros(n_policies), np.inf)


def read_rules(
    names: tuple[str, ...],
    *,
    costs: Mapping[str, float] | None = None,
    budget: float | None = None,
    must_include: Collection[str] = (),
    must_exclude: Collection[str] = (),
) -> Rules:
    """Turn what the user asks of a launch into rules.

    Parameters
    ----------
    names : tuple of str
        The N candidates.
    costs, budget : mapping of str to float, and float, optional
        What each candidate costs, all of them named, and what a launch may cost in all, in the
        same unit; both or neither.
    must_include, must_exclude : collection of str
        Names of candidates that have to go live, and that must not.

    Raises
    ------
    SettingsError
        If a name is not in the belief or on both lists, a cost is missing, negative or not
        finite, or only one of costs and budget is given.
    """
    required = _named(names, must_include, "must_include")
    excluded = _named(names, must_exclude, "must_exclude")
    both = required & excluded
    if both.any():
        raise SettingsError(
            f"{names[int(np.argmax(both))]!r} is in must_include and in must_exclude"
        )
    if (costs is None) != (budget is None):
        given, missing = ("costs", "budget") if budget is None else ("budget", "costs")
        raise SettingsError(f"{given} is given without {missing}: a launch needs both, or neither")
    if costs is None or budget is None:
        return Rules(required, excluded, np.zeros(len(names)), np.inf)
    if not isinstance(costs, Mapping):
        raise SettingsError(f"costs must map names to numbers, got {type(costs).__name__}")
    unknown = sorted(str(name) for name in set(costs) - set(names))
    if unknown:
        raise SettingsError(
            f"costs names {unknown[0]!r}, which is not in the belief: it has {_shown(names)}"
        )
    cost = np.array([_amount(costs.get(name), f"the cost of {name!r}") for name in names])
    return Rules(required, excluded, cost, _amount(budget, "budget"))


def check_rules(rules: Rules, score: Score, names: tuple[str, ...]) -> None:
    """Refuse rules that no launch can meet, and those on a score that launches nobody.

    Parameters
    ----------
    rules : Rules
        For N policies.
    score : Score
        What the ranking is judged by; its k is how many go live.
    names : tuple of str
        The N candidates.

    Raises
    ------
    SettingsError
        With the number that stands in the way.
    """
    if rules.free:
        return
    launched = score.launches(len(names))
    if launched is None:
        raise SettingsError(
            f"{score.name} judges the whole ranking and does not say how many go live: costs, "
            "must_include and must_exclude need a score with a k, or a custom one with a depth"
        )
    n_required, n_left = int(rules.required.sum()), int((~rules.excluded).sum())
    if n_required > launched:
        raise SettingsError(
            f"must_include names {n_required} candidates and {score.name} launches {launched}"
        )
    if n_left == 0 or (n_left < launched and not score.partial):
        raise SettingsError(
            f"must_exclude leaves {n_left} candidates and {score.name} launches {launched}"
        )
    if not np.isfinite(rules.budget):
        return
    spare = np.sort(rules.cost[~rules.excluded & ~rules.required])
    size = launched if not score.partial else max(n_required, 1)
    cheapest = rules.cost[rules.required].sum() + spare[: size - n_required].sum()
    if cheapest > rules.limit:
        which = "those that must be included" if n_required else "the cheapest that may go live"
        many = f"the cheapest {size} that may go live" if not score.partial else which
        raise SettingsError(
            f"no launch is within the budget of {rules.budget:g}: {many} cost {cheapest:g}"
        )


def keep_admissible(
    rules: Rules, score: Score, values: Float[np.ndarray, "M N"], names: tuple[str, ...]
) -> Rules:
    """Exclude the policies that the score itself does not let go live under these draws.

    Raises
    ------
    SettingsError
        If one of them is required.
    """
    admissible = score.admissible(values)
    if admissible is None:
        return rules
    clash = rules.required & ~admissible
    if clash.any():
        name = names[int(np.argmax(clash))]
        raise SettingsError(f"must_include names {name!r}, which {score.name} does not allow")
    kept = rules._replace(excluded=rules.excluded | ~admissible)
    if kept.excluded.all():
        raise SettingsError(f"must_exclude leaves no policy that {score.name} lets go live")
    return kept


def check_choice(
    score: Score,
    names: tuple[str, ...],
    *,
    costs: Mapping[str, float] | None = None,
    budget: float | None = None,
    must_include: Collection[str] = (),
    must_exclude: Collection[str] = (),
) -> tuple[Score, Rules]:
    """Hold a score and the rules of a launch against the candidates' names, before any draws.

    Returns
    -------
    (Score, Rules)
        The score with the policies it names looked up, and the rules.

    Raises
    ------
    ScoreError, SettingsError
        If the score does not fit the candidates, or no launch can meet the rules.
    """
    score.check(len(names))
    rules = read_rules(
        names,
        costs=costs,
        budget=budget,
        must_include=must_include,
        must_exclude=must_exclude,
    )
    check_rules(rules, score, names)
    return score.bind(names), rules


def fill(order: Int[np.ndarray, " N"], rules: Rules, size: int) -> tuple[int, ...] | None:
    """Take `size` policies that may be launched together, the earlier in an order the sooner.

    Parameters
    ----------
    order : Int[ndarray, "N"]
        All policies.
    rules : Rules
        Which sets are allowed.
    size : int
        How many to take.

    Returns
    -------
    tuple of int or None
        In the given order; None if no such set is allowed.
    """
    taken = set(np.flatnonzero(rules.required).tolist())
    if len(taken) > size:
        return None
    spent = float(rules.cost[sorted(taken)].sum())
    open_ones = [int(i) for i in order if i not in taken and not rules.excluded[i]]
    for place, i in enumerate(open_ones):
        missing = size - len(taken) - 1
        if missing < 0:
            break
        rest = np.sort(rules.cost[open_ones[place + 1 :]])[:missing]
        if len(rest) == missing and spent + rules.cost[i] + rest.sum() <= rules.limit:
            taken.add(i)
            spent += float(rules.cost[i])
    if len(taken) < size or spent > rules.limit:
        return None
    return tuple(int(i) for i in order if i in taken)


def _named(names: tuple[str, ...], wanted: object, what: str) -> Bool[np.ndarray, " N"]:
    if isinstance(wanted, str):
        raise SettingsError(f"{what} must be a list of names, got the string {wanted!r}")
    if not isinstance(wanted, Iterable):
        raise SettingsError(f"{what} must be a list of names, got {wanted!r}")
    listed = tuple(wanted)
    for name in listed:
        if name not in names:
            raise SettingsError(
                f"{what} names {name!r}, which is not in the belief: it has {_shown(names)}"
            )
    return np.array([name in listed for name in names], bool)


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _amount(value: object, what: str) -> float:
    if value is None:
        raise SettingsError(f"{what} is missing: give one for every candidate, 0 if it is free")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise SettingsError(f"{what} must be a number, got {value!r}")
    amount = float(value)
    if not (np.isfinite(amount) and amount >= 0.0):
        raise SettingsError(f"{what} must be finite and not negative, got {amount}")
    return amount
