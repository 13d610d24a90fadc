"""A fit of a log whose rows lie elsewhere: what is asked of them, by queries on groups of rows.

Everything that a fit on labels makes of counts is the same. What is asked of the rows beside is
asked where they lie, and what depends on their order is looked at in the first rows, which are
held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.fitting.adaptive import follows_rewards
from bayesdice_ppl.fitting.grouping import FEW_EPISODES, check_named, check_several
from bayesdice_ppl.fitting.inputs import Inputs
from bayesdice_ppl.fitting.row_facts import RewardSpread
from bayesdice_ppl.fitting.settings import CLUSTERS, FitSettings
from bayesdice_ppl.fitting.tails import FEWEST, MANY, tail_index, tail_size
from bayesdice_ppl.inference import Dependence, Grouping, Problem, Tails
from bayesdice_ppl.inference.counted_groups import (
    CountedDependence,
    CountedGrouping,
    Lines,
    coefficients,
)
from bayesdice_ppl.inference.dependence import Unit
from bayesdice_ppl.inference.skewness import CountedRows, Powers
from bayesdice_ppl.logs import CountedLogs, UsableRows
from bayesdice_ppl.logs.labels import MISSING
from bayesdice_ppl.logs.lazy.first import WITHOUT_ORDER
from bayesdice_ppl.logs.lazy.rows import Coefficients, SumsOfGroups
from bayesdice_ppl.logs.logged_value import LoggedValue
from bayesdice_ppl.moments import LoggedPairs, PairRewards
from bayesdice_ppl.moments.known_rewards import Binary, Bounded, Counts


@final
@dataclass(frozen=True, eq=False)
class CountedFacts:
    """What is known of rows that lie elsewhere, for one fit.

    Attributes
    ----------
    logs
        The counted log, with its rewards in the units of the fit.
    answers
        Sums over groups that were asked for, with the numbers that they were asked with.
    """

    logs: CountedLogs
    answers: dict[tuple[str, ...], tuple[Coefficients, SumsOfGroups]] = field(default_factory=dict)

    def of(self, inputs: Inputs) -> CountedFit:
        """The same beside the input that was made of it."""
        return CountedFit(self, inputs)


class CountedFit(NamedTuple):
    """What a fit asks of rows that lie elsewhere; see `bayesdice_ppl.fitting.row_facts.RowFacts`.

    Attributes
    ----------
    facts
        The log and what was asked of it.
    inputs
        The input of the fit.
    """

    facts: CountedFacts
    inputs: Inputs

    @property
    def logs(self) -> CountedLogs:
        """The counted log."""
        return self.facts.logs

    @property
    def lines(self) -> Lines:
        """The lines of the log beside its cells."""
        logs, mask = self.logs, self.inputs.rows.mask
        cell = np.full(len(mask), -1)
        cell[mask] = self.inputs.cell_of_row
        return Lines(
            cell,
            logs.state,
            mask.astype(np.float64),
            logs.count,
            logs.starts,
            logs.powers,
            logs.straight,
            logs.ends,
        )

    @property
    def powers(self) -> CountedRows:
        """Mean reward of each cell, and sums of powers around it."""
        count = np.asarray(self.inputs.cells.count)
        first, second, third, fourth = self._by_cell()
        safe = np.where(count > 0.0, count, 1.0)
        mean = first / safe
        squares = np.maximum(second - count * mean**2, 0.0)
        cubes = third - 3.0 * mean * second + 3.0 * mean**2 * first - count * mean**3
        fourths = fourth - 4.0 * mean * third + 6.0 * mean**2 * second
        fourths = np.maximum(fourths - 4.0 * mean**3 * first + count * mean**4, 0.0)
        return CountedRows(mean, Powers(squares, cubes, fourths))

    def _by_cell(self) -> Float[np.ndarray, "4 C"]:
        cell, n_cells = self.inputs.cell_of_row, len(self.inputs.cells.count)
        mask = self.inputs.rows.mask
        return np.stack([np.bincount(cell, sums[mask], n_cells) for sums in self.logs.sums()])

    @property
    def spread(self) -> RewardSpread:
        """How the rewards are spread."""
        logs, mask = self.logs, self.inputs.rows.mask
        level, slope = logs.straight
        low = level + slope * float(logs.ends[0, mask].min())
        high = level + slope * float(logs.ends[1, mask].max())
        n = float(logs.count[mask].sum())
        first, second = (float(sums[mask].sum()) / n for sums in logs.sums()[:2])
        sd = float(np.sqrt(max(second - first**2, 0.0)))
        return RewardSpread(low, high, sd if high > low else 0.0)

    @property
    def visits(self) -> Float[np.ndarray, " P"]:
        """Rows of each pair."""
        cells = self.inputs.cells
        return np.bincount(cells.pair, cells.count, len(cells.pair_state))

    @property
    def of_pairs(self) -> PairRewards:
        """Rewards of each pair."""
        return pair_sums(self.logs, self.inputs.pairs, self.inputs.rows.mask)

    @property
    def kept(self) -> None:
        """None: a belief keeps no rewards of rows that lie elsewhere."""
        return

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not looked at, or not in all rows."""
        logs, inputs = self.logs, self.inputs
        found = []
        n, first = logs.n_transitions, logs.sample.n_transitions
        if not logs.whole:
            looked = "whether the logging policy followed its rewards, whether rewards drift"
            if inputs.settings.gamma > 0.0:
                looked += ", whether states are Markov"
            if logs.has_propensity:
                looked += ", whether propensities fit the actions"
            found.append(
                f"the log was counted where it lies ({n:,} rows), and what depends on the order of "
                f"rows was looked at in the first {first:,} of them: {looked}"
            )
        if logs.order in WITHOUT_ORDER:
            found.append(
                f"whether the logging policy followed its rewards and whether rewards drift was "
                f"looked at in {WITHOUT_ORDER[logs.order]}: where this is not the order of time, "
                "neither was seen"
            )
        if inputs.settings.cluster not in CLUSTERS and not inputs.settings.clusters:
            few = logs.n_episodes < FEW_EPISODES or logs.alone
            if few:
                found.append(
                    "the log was counted where it lies, and nobody looked whether rows that follow "
                    "each other move together, as they may where episodes are few: name a column "
                    "in cluster= if they do"
                )
        if self._gaps:
            found.append(
                f"the columns {', '.join(self._gaps)} were not looked at for rows that move "
                "together, as they do not say of every row which group it is in"
            )
        return tuple(found)

    @property
    def _gaps(self) -> list[str]:
        nulls = self.logs.rows.survey.nulls
        return [name for name in self.logs.groups if nulls[name]]

    def dependence(self) -> CountedDependence | None:
        """How the rows may be grouped; see `bayesdice_ppl.fitting.grouping.dependence_of`."""
        settings, logs = self.inputs.settings, self.logs
        constraint, asked = settings.constraint, settings.clusters
        for name in asked:
            check_named(name, logs.groups, "'transition'")
            logs.rows.check_groups(name)
            check_several(name, logs.groups[name])
        if not (constraint.penalty.calibrated and constraint.value_constraint):
            if asked:
                raise SettingsError(
                    f"cluster={settings.cluster!r}: expected a penalty that is measured in Sigma "
                    f"and a value constraint, found the penalty {constraint.penalty}. Leave "
                    "cluster out."
                )
            return None
        sample, mask = logs.sample, self._used_of_first
        chance = sample.propensity
        adaptive = follows_rewards(
            sample.state[mask],
            sample.action[mask],
            sample.reward[mask],
            None if chance is None else chance[mask],
        )
        looks = settings.cluster not in CLUSTERS
        if not (looks or adaptive):
            return None
        names = list(asked)
        if looks and not asked:
            names = list(logs.looked_at)
            if 1 < logs.n_episodes < logs.n_transitions:
                names.append("episode")
        groupings = [self._grouping(name) for name in names]
        if not asked:
            groupings = self._distinct(groupings)
        apart = () if not looks or asked else logs.of_few_groups
        return CountedDependence(
            lines=self.lines,
            ask=self.ask,
            groupings=tuple(groupings),
            asked=bool(asked),
            adaptive=adaptive,
            ignored=tuple(
                name for name in logs.groups if name not in (*logs.looked_at, *asked, *apart)
            ),
            suspects=tuple(self._grouping(name) for name in apart),
        )

    def _grouping(self, name: str) -> CountedGrouping:
        logs = self.logs
        size = logs.n_episodes if name == "episode" else logs.groups[name]
        return CountedGrouping(name, size, self._crossing)

    def _crossing(self, one: str, other: str) -> int:
        return len(self.logs.rows.group_sizes((one, other)))

    def _distinct(self, groupings: list[CountedGrouping]) -> list[CountedGrouping]:
        """Each way to group once, the first by name."""
        kept: list[CountedGrouping] = []
        for each in groupings:
            alike = [one for one in kept if one.of_rows == each.of_rows]
            if not any(self._crossing(one.name, each.name) == each.of_rows for one in alike):
                kept.append(each)
        return kept

    def by_episode(self) -> Dependence:
        """Refuse: cells are not kept apart by episode.

        Raises
        ------
        SettingsError
            Always.
        """
        raise SettingsError(
            "cluster='episode': expected another unit for a log that is counted where it lies. "
            "Leave cluster out: episodes become the unit where their rows move together."
        )

    def ask(self, names: Sequence[str], numbers: Coefficients) -> SumsOfGroups:
        """Sums over the groups that columns make, each asked once."""
        key = tuple(names)
        known = self.facts.answers.get(key)
        if known is not None and all(map(np.array_equal, known[0], numbers)):
            return known[1]
        logs, gamma = self.logs, self.inputs.settings.gamma
        found = logs.rows.group_sums(key, logs.keys, numbers, gamma)
        self.facts.answers[key] = (numbers, found)
        return found

    def _of_episodes(self, problem: Problem) -> tuple[Coefficients, SumsOfGroups | None]:
        """What lines add, and sums over episodes; None where each row is an episode."""
        numbers = coefficients(self.inputs.cells, problem.pilots, self.lines)
        return numbers, None if self.logs.alone else self.ask(("episode",), numbers)

    def episode_shares(self, problem: Problem) -> Float[np.ndarray, " N"]:
        """Share of the most influential episode in each value."""
        numbers, sums = self._of_episodes(problem)
        n = len(numbers.slope)
        if sums is not None:
            squares = sums.total**2
            total, most = squares.sum(axis=1), squares.max(axis=1)
        else:
            lines, level = self.lines, numbers.level + numbers.start
            a, count, known = numbers.slope, lines.rows, lines.powers
            total = (a**2 * known[1] + 2.0 * a * level * known[0] + level**2 * count).sum(axis=1)
            low, high = lines.ends
            ends = np.maximum((a * low + level) ** 2, (a * high + level) ** 2)
            most = ends.max(axis=1)
        return np.where(total > 0.0, most / np.where(total > 0.0, total, 1.0), np.zeros(n))

    def tail_indices(
        self, tails: Tails, active: Bool[np.ndarray, "N P"]
    ) -> Float[np.ndarray, " N"]:
        """Index of the rewards' tail, from the largest of them."""
        found = np.full(len(tails.effective), np.nan)
        if not np.any(tails.effective < MANY):
            return found
        logs, mask = self.logs, self.inputs.rows.mask
        pairs = self.of_pairs
        level, slope = logs.straight
        pair = np.zeros(len(mask), dtype=np.int64)
        pair[mask] = self.inputs.pairs.of_row
        common = logs.rows.commonest(logs.keys, mask, int(logs.count[mask].sum()))
        for j in np.flatnonzero(tails.effective < MANY):
            side = 1.0 if tails.skewness[j] >= 0.0 else -1.0
            used = mask & active[j][pair]
            off = (level - pairs.mean[pair]) * side
            count, largest = logs.rows.largest(
                logs.keys, (used, np.full(len(mask), side * slope), off), common, tail_size
            )
            if count >= FEWEST:
                found[j] = tail_index(largest, count)
        return found

    @property
    def _used_of_first(self) -> Bool[np.ndarray, " n"]:
        """Which of the first rows are used, as `bayesdice_ppl.logs.usable_rows` has it."""
        sample = self.logs.sample
        if self.inputs.settings.gamma == 0.0:
            return np.ones(sample.n_transitions, dtype=bool)
        missing = (sample.next_state == MISSING) & ~sample.terminated
        ending = np.array(self.logs.rows.survey.left_out, dtype=np.int64)
        return ~(missing | np.isin(sample.step, ending))

    def in_order(self, problem: Problem) -> tuple[Inputs, Problem]:
        """The first rows as those of a log in memory, with the cells of the whole log."""
        logs, inputs = self.logs, self.inputs
        sample, mask = logs.sample, self._used_of_first
        pair, cell = self._places(sample, mask)
        pairs = inputs.pairs
        held = inputs._replace(
            logs=sample,
            rows=UsableRows(mask, int((~mask).sum()), inputs.rows.steps, inputs.rows.missing),
            pairs=LoggedPairs(pairs.state, pairs.action, pair),
            cell_of_row=cell,
            counted=None,
        )
        unit = problem.unit
        if unit is not None and unit.groupings:
            starts = sample.first_rows
            groupings = []
            for each in unit.groupings:
                code = sample.episode if each.name == "episode" else sample.group_codes(each.name)
                groupings.append(Grouping(each.name, code[mask], code[starts]))
            unit = replace(unit, groupings=tuple(groupings))
        return held, problem._replace(unit=unit, dependence=None)

    def _places(
        self, sample: Any, mask: Bool[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """Pair and cell of each of the first rows."""
        inputs, logs = self.inputs, self.logs
        n_states, n_actions = len(logs.state_labels), len(logs.action_labels)

        def code(of: Any, keep: Bool[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
            ended, gamma = of.terminated[keep], inputs.settings.gamma
            onward = np.where(ended | (gamma == 0.0), 0, of.next_state[keep])
            pair = of.state[keep] * n_actions + of.action[keep]
            return (pair * n_states + onward) * 2 + (ended & (gamma > 0.0))

        whole = code(logs, inputs.rows.mask)
        order = np.argsort(whole, kind="stable")
        line = order[np.searchsorted(whole[order], code(sample, mask))]
        return inputs.pairs.of_row[line], inputs.cell_of_row[line]

    def logged_value(self, unit: Unit | None) -> LoggedValue:
        """The logging policy's value from its own returns; see `logged_value` of rows in memory."""
        settings, logs = self.inputs.settings, self.logs
        gamma, restart = settings.gamma, settings.form.moments.restart
        level, slope = logs.straight
        names = [] if unit is None else [each.name for each in unit.groupings]
        known = self.facts.answers
        answers = [known[(name,)][1] for name in names if (name,) in known]
        episodes = known.get(("episode",))
        if episodes is None and not logs.alone:
            raise AssertionError("episodes are asked for before their returns")
        several = answers if episodes is None else [episodes[1], *answers]

        def parts(sums: SumsOfGroups) -> tuple[np.ndarray, np.ndarray]:
            if gamma == 1.0:
                return level * sums.rows + slope * sums.paid, sums.rows
            paid = level * sums.discounted + slope * sums.paid
            counted = (1.0 - gamma) * sums.discounted
            if not restart:
                counted = counted + gamma * sums.discounted_ended
            return (1.0 - gamma) * paid, counted

        if logs.alone:
            return self._logged_value_alone(answers, parts)
        sums = several[0]
        paid, counted = parts(sums)
        value = float(paid.sum() / counted.sum())
        tail = 0.0
        if gamma < 1.0:
            unseen = float(np.mean(gamma**sums.rows * (sums.ended == 0.0)))
            tail = unseen / (float(counted.sum()) / logs.n_episodes)
        variance = max(_variance(parts(each), value) for each in several)
        return LoggedValue(value, float(np.sqrt(variance)), tail)

    def _logged_value_alone(self, answers: list[SumsOfGroups], parts: Any) -> LoggedValue:
        """The same where each row is an episode."""
        settings, logs = self.inputs.settings, self.logs
        gamma, restart = settings.gamma, settings.form.moments.restart
        scale = 1.0 if gamma == 1.0 else 1.0 - gamma
        counted = np.full(len(logs.count), scale)
        if gamma < 1.0 and not restart:
            counted = counted + gamma * logs.terminated
        first, second = (scale ** (k + 1) * sums for k, sums in enumerate(logs.sums()[:2]))
        whole = float(counted @ logs.count)
        value = float(first.sum()) / whole
        m = logs.n_episodes
        squares = second - 2.0 * value * counted * first + (value * counted) ** 2 * logs.count
        variance = float(squares.sum()) / whole**2 * m / (m - 1)
        variance = max([variance, *(_variance(parts(each), value) for each in answers)])
        tail = 0.0
        if gamma < 1.0:
            unseen = gamma * float(logs.count[~logs.terminated].sum()) / m
            tail = unseen / (whole / m)
        return LoggedValue(value, float(np.sqrt(variance)), tail)


def _variance(
    parts: tuple[Float[np.ndarray, " G"], Float[np.ndarray, " G"]], value: float
) -> float:
    """Variance of a ratio of sums whose parts are independent between groups."""
    paid, counted = parts
    error = (paid - value * counted) / counted.sum()
    size = len(error)
    return float(error @ error * size / (size - 1)) if size > 1 else float("nan")


def pair_sums(logs: CountedLogs, pairs: LoggedPairs, mask: Bool[np.ndarray, " K"]) -> PairRewards:
    """Rewards of each pair of a counted log.

    Parameters
    ----------
    logs
        The log.
    pairs
        Its pairs; ``of_row`` is of its lines.
    mask
        The lines that are used, shape (K,).
    """
    n_pairs = len(pairs.state)

    def over(sums: Float[np.ndarray, " K"]) -> Float[np.ndarray, " P"]:
        return np.bincount(pairs.of_row, sums[mask], n_pairs)

    visits, (first, second) = over(logs.count), (over(sums) for sums in logs.sums()[:2])
    mean = first / visits
    return PairRewards(visits, mean, np.maximum(second - visits * mean**2, 0.0))


def check_counted(logs: CountedLogs, settings: FitSettings) -> None:
    """Refuse what needs the rows of a log in memory.

    Raises
    ------
    SettingsError
        Features, statistics, laws of errors, or a unit that counts do not tell.
    """
    if not settings.tabular:
        _refuse("features", str(settings.features), "one-hot features", "Leave features out.")
    if not settings.plain:
        _refuse(
            "statistic",
            ", ".join(str(each) for each in settings.statistic),
            "the mean reward",
            "Leave statistic out, or put the transformed reward into a column of its own.",
        )
    if settings.constraint.value_law.needs_errors:
        law = str(settings.constraint.value_law)
        _refuse("value_law", law, "one that needs no errors of single rows", "Leave it out.")
    if settings.form.by_episode:
        _refuse(
            "cluster",
            "'episode'",
            "another unit",
            "Leave cluster out: episodes become the unit where their rows move together.",
        )


def _refuse(setting: str, found: str, expected: str, advice: str) -> None:
    raise SettingsError(
        f"{setting}: expected {expected} for a log that is counted where it lies, found {found}. "
        f"{advice} Or read the log into memory."
    )


def check_counted_rewards(logs: CountedLogs, settings: FitSettings) -> None:
    """Refuse a counted log whose rewards are not of the kind that was promised.

    Raises
    ------
    LogsError
        With a reward of another kind.
    """
    kind = settings.prior.rewards
    if kind is None:
        return
    unit = None
    if isinstance(kind, Counts):
        low, high, unit = kind.zero, float("inf"), kind.unit
    else:
        assert isinstance(kind, Binary | Bounded)
        low, high = kind.low, kind.high
        unit = high - low if isinstance(kind, Binary) else None
    odd = logs.rows.odd_reward(low, high, unit)
    if odd is not None:
        raise LogsError(
            f"column {logs.reward_name!r}: expected {kind.words}, as prior.rewards={kind.flat!r} "
            f"says, found {odd:g}. Leave rewards out of the prior, or mend the log."
        )
