"""Which launches are allowed: a budget, candidates that must go live, others that must not.

A ranking is allowed if its launch, the policies of its first places, is. The loss is still measured
against all policies: one that must not go live may be the best.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.checks import listed, nonnegative
from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.scores import Score

# Costs are sums of decimals: a set that costs the budget up to rounding is within it.
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
    def has_budget(self) -> bool:
        """Whether there is a budget at all."""
        return bool(np.isfinite(self.budget))

    @property
    def free(self) -> bool:
        """Whether every set is allowed."""
        return not (self.required.any() or self.excluded.any() or self.has_budget)

    @property
    def limit(self) -> float:
        """The budget, with room for the rounding of sums."""
        return self.budget + _ROUNDING * abs(self.budget) if self.has_budget else np.inf

    def permuted(self, order: Int[np.ndarray, " N"]) -> "Rules":
        """Give the same rules for policies listed in another order."""
        return Rules(self.required[order], self.excluded[order], self.cost[order], self.budget)

    def allow(self, sets: Int[np.ndarray, "R j"]) -> Bool[np.ndarray, " R"]:
        """Tell which sets of j distinct policies, rows of indices, may be launched."""
        return (
            (self.required[sets].sum(axis=1) == self.required.sum())
            & ~self.excluded[sets].any(axis=1)
            & (self.cost[sets].sum(axis=1) <= self.limit)
        )

    def limits_cost(self, depth: int) -> bool:
        """Tell whether any set of at most `depth` policies is ruled out by its cost alone."""
        others = np.sort(self.cost[~self.required & ~self.excluded])[::-1]
        dearest = others[: max(0, depth - int(self.required.sum()))].sum()
        return bool(self.cost[self.required].sum() + dearest > self.limit)

    def fill(self, order: Int[np.ndarray, " N"], size: int) -> tuple[int, ...] | None:
        """Take `size` policies that may be launched together, the first of an order if possible.

        Parameters
        ----------
        order
            All policies.
        size
            How many to take.

        Returns
        -------
        tuple of int or None
            In the given order; None if no such set is allowed.
        """
        taken = set(np.flatnonzero(self.required).tolist())
        if len(taken) > size:
            return None
        spent = float(self.cost[sorted(taken)].sum())
        open_to = [int(i) for i in order if i not in taken and not self.excluded[i]]
        for place, i in enumerate(open_to):
            missing = size - len(taken) - 1
            if missing < 0:
                break
            rest = np.sort(self.cost[open_to[place + 1 :]])[:missing]
            if len(rest) == missing and spent + self.cost[i] + rest.sum() <= self.limit:
                taken.add(i)
                spent += float(self.cost[i])
        if len(taken) < size or spent > self.limit:
            return None
        return tuple(int(i) for i in order if i in taken)


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
        A name is not in the belief or on both lists, a cost is missing, negative or not finite, or
        only one of costs and budget is given.
    """
    required = _named(names, must_include, "must_include")
    excluded = _named(names, must_exclude, "must_exclude")
    if (required & excluded).any():
        name = names[int(np.argmax(required & excluded))]
        raise SettingsError(
            f"must_include: {name!r} is in must_exclude too. Take it off one of the lists."
        )
    if (costs is None) != (budget is None):
        given, missing = ("costs", "budget") if budget is None else ("budget", "costs")
        raise SettingsError(
            f"{missing}: expected it beside {given}, found none. Give both, or neither."
        )
    if costs is None or budget is None:
        return Rules(required, excluded, np.zeros(len(names)), np.inf)
    if not isinstance(costs, Mapping):
        raise SettingsError(f"costs: expected a mapping of names to numbers, found {costs!r}.")
    _check_known(names, costs, "costs")
    missing_costs = [name for name in names if costs.get(name) is None]
    if missing_costs:
        raise SettingsError(
            f"costs: expected one for every candidate, found none for {listed(missing_costs)}. "
            "Write 0 for one that is free."
        )
    cost = np.array([nonnegative(f"the cost of {name!r}", costs[name]) for name in names])
    return Rules(required, excluded, cost, nonnegative("budget", budget))


def check_rules(rules: Rules, score: Score, names: tuple[str, ...]) -> None:
    """Refuse rules that no launch can meet, and rules on a score that launches nobody.

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
            "costs, must_include and must_exclude: expected a score that says how many go live, "
            f"found {score.name}, which judges the whole ranking. Use a score with a k, or a "
            "custom one with a depth."
        )
    n_required, n_left = int(rules.required.sum()), int((~rules.excluded).sum())
    if n_required > launched:
        raise SettingsError(
            f"must_include: expected at most {launched} candidates, as many as {score.name} "
            f"launches, found {n_required}."
        )
    needed = 1 if score.partial else launched
    if n_left < needed:
        raise SettingsError(
            f"must_exclude: expected at least {needed} left for {score.name} to launch, "
            f"found {n_left}. Exclude fewer, or choose a smaller k."
        )
    if not rules.has_budget:
        return
    spare = np.sort(rules.cost[~rules.excluded & ~rules.required])
    size = launched if not score.partial else max(n_required, 1)
    cheapest = rules.cost[rules.required].sum() + spare[: size - n_required].sum()
    if cheapest > rules.limit:
        which = "those that must be included" if n_required else "the cheapest that may go live"
        many = f"the cheapest {size} that may go live" if not score.partial else which
        raise SettingsError(
            f"budget: expected at least {cheapest:g}, the cost of {many}, found {rules.budget:g}. "
            "Raise the budget, or launch fewer."
        )


def keep_admissible(
    rules: Rules, score: Score, values: Float[np.ndarray, "M N"], names: tuple[str, ...]
) -> Rules:
    """Exclude the policies that the score itself does not let go live under these draws.

    Raises
    ------
    SettingsError
        One of them is required, or none is left.
    """
    admissible = score.admissible(values)
    if admissible is None:
        return rules
    clash = rules.required & ~admissible
    if clash.any():
        name = names[int(np.argmax(clash))]
        raise SettingsError(f"must_include names {name!r}, which {score.name} does not allow.")
    kept = rules._replace(excluded=rules.excluded | ~admissible)
    if kept.excluded.all():
        raise SettingsError(
            f"must_exclude: expected at least one policy left that {score.name} lets go live, "
            "found none. Exclude fewer."
        )
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
    """Check a score and the rules of a launch against the candidates' names, before any draws.

    Returns
    -------
    (Score, Rules)
        The score with the policies it names looked up, and the rules.

    Raises
    ------
    ScoreError, SettingsError
        The score does not fit the candidates, or no launch can meet the rules.
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


def _named(names: tuple[str, ...], wanted: object, setting: str) -> Bool[np.ndarray, " N"]:
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise SettingsError(f"{setting}: expected a list of names, found {wanted!r}.")
    chosen = tuple(wanted)
    _check_known(names, chosen, setting)
    return np.array([name in chosen for name in names], bool)


def _check_known(names: tuple[str, ...], given: Iterable[object], setting: str) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise SettingsError(
            f"{setting}: expected names of the belief, {listed(names)}, found {unknown[0]!r}."
        )
