"""Alignment: does a ranking made for a score do better at that score than a sort by one number.

Worlds are drawn from the prior that the beliefs start from, six-armed Bernoulli bandits with a
short log of each, so that every posterior is exact and what is compared is the rules alone. Each
rule ranks the candidates of each world, and its ranking is judged by the true values: Figure 3 of
Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty".
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import ttest_rel

from bayesdice_ppl import scores
from bayesdice_ppl.experiments.ranking_rules import (
    NUMBERS,
    aligned,
    by_number,
    shuffled,
    sorting_numbers,
)
from bayesdice_ppl.scores import Score
from benchmarks.tables import RESULTS, write_table

SEED = 0
TRIALS = 300
N_ARMS, N_POLICIES, N_ROUNDS, N_DRAWS = 6, 5, 60, 4_000
CONCENTRATION = 0.3
"""Of the Dirichlet that candidates are drawn from: two arms get most of the pulls of each."""

SCORES: tuple[Score, ...] = (
    *(scores.precision(k) for k in (1, 2, 3)),
    *(scores.accuracy(k) for k in (1, 2, 3)),
    *(scores.correlation(k) for k in (2, 3)),
    *(scores.regret(k) for k in (1, 2, 3)),
)
JOINT, INDEPENDENT, MEAN = "aligned joint", "aligned independent", NUMBERS[0]
RULES = (
    JOINT,
    INDEPENDENT,
    *NUMBERS,
)
LEVEL = 0.05
N_TESTS = len(SCORES) * (len(RULES) - 1)

COMMAND = "python -m benchmarks alignment"
NOTES = (
    f"One row is one rule, judged by one score in the same simulated worlds. A world: {N_ARMS} "
    f"arms that pay 1 at rates drawn from Beta(1, 1); {N_POLICIES} candidates, each a "
    f"distribution over the arms drawn from a Dirichlet of concentration {CONCENTRATION} an arm; "
    f"a log of {N_ROUNDS} rounds by the behavior policy, which pulls all arms equally often on "
    "average. A candidate's true value is its mean reward per round.",
    f"The belief is exact: {N_DRAWS:,} draws of the arms' rates from their posteriors, Beta(1 + "
    "wins, 1 + losses), each of which gives the values of all candidates at once. `aligned joint` "
    "searches all rankings for the lowest expected loss under it, as `bayesdice_ppl.select` does. "
    "`aligned independent` does the same after each candidate's draws were permuted on their own: "
    "the same marginals, and no correlation. The other rules sort the candidates by mean, mean "
    "plus or minus one standard deviation, or the 5 % or 95 % quantile of the same draws.",
    "`loss`: mean over worlds of the ranking's loss against the true values, `loss_se` its "
    "standard error; 1 minus the score for precision, accuracy and correlation, reward per round "
    "for regret. `excess`: loss minus that of `aligned joint`, paired by world, `excess_se` its "
    "standard error; positive where `aligned joint` is better. `p_value`: paired t test over "
    "worlds, one-sided: small if `aligned joint` is worse. Empty where both rules have the same "
    "loss in every world: at regret@1 any belief with the same means asks for the highest mean.",
    "Randomness: world i, counted from 0, is drawn by NumPy's `default_rng([0, i])`, and is the "
    "same however many there are. All rows are of the same worlds, so they are not independent.",
)

Losses = Mapping[tuple[str, str], Float[np.ndarray, " worlds"]]


class World(NamedTuple):
    """A bandit, its candidates, its log, and the belief from it.

    Attributes
    ----------
    arm_rates
        Probability that each arm pays 1, (arms,).
    policies
        Probability with which each candidate pulls each arm, (candidates, arms).
    pulls, wins
        How often the log has each arm, and how often it paid, (arms,).
    joint
        Draws of the candidates' values, a row from one draw of the arms, (draws, candidates).
    independent
        The same numbers, each column in an order of its own, (draws, candidates).
    """

    arm_rates: Float[np.ndarray, " arms"]
    policies: Float[np.ndarray, "candidates arms"]
    pulls: Int[np.ndarray, " arms"]
    wins: Int[np.ndarray, " arms"]
    joint: Float[np.ndarray, "draws candidates"]
    independent: Float[np.ndarray, "draws candidates"]

    @property
    def true_values(self) -> Float[np.ndarray, " candidates"]:
        """Mean reward per round of each candidate."""
        return self.policies @ self.arm_rates


class Row(NamedTuple):
    """One rule at one score: a row of the table.

    Attributes
    ----------
    score, k, rule
        What is judged, and by what.
    worlds
        How many.
    loss, loss_se
        Mean loss against the true values, and its standard error.
    excess, excess_se
        Loss minus that of aligned joint, paired by world, and its standard error.
    p_value
        Of the paired t test whose alternative is that aligned joint loses more; None if the two
        lose the same in every world.
    """

    score: str
    k: int | None
    rule: str
    worlds: int
    loss: float
    loss_se: float
    excess: float | None = None
    excess_se: float | None = None
    p_value: float | None = None


def draw_world(index: int) -> World:
    """Draw one world from the prior.

    Parameters
    ----------
    index
        Which one: it is drawn by a generator of its own, seeded by `SEED` and this number.
    """
    rng = np.random.default_rng([SEED, index])
    arm_rates = rng.beta(1.0, 1.0, size=N_ARMS)
    policies = rng.dirichlet(np.full(N_ARMS, CONCENTRATION), size=N_POLICIES)
    pulls = rng.multinomial(N_ROUNDS, np.full(N_ARMS, 1.0 / N_ARMS))
    wins = rng.binomial(pulls, arm_rates)
    drawn_rates = rng.beta(1 + wins, 1 + pulls - wins, size=(N_DRAWS, N_ARMS))
    joint = drawn_rates @ policies.T
    return World(arm_rates, policies, pulls, wins, joint, shuffled(joint, rng))


def rank(world: World) -> dict[tuple[str, str], Int[np.ndarray, " candidates"]]:
    """Let every rule rank the candidates of a world for every score.

    Returns
    -------
    dict
        (name of the score, rule) -> indices of all candidates, best first.
    """
    plain = {rule: by_number(number) for rule, number in sorting_numbers(world.joint).items()}
    joint, independent = aligned(world.joint, SCORES), aligned(world.independent, SCORES)
    rankings: dict[tuple[str, str], Int[np.ndarray, " candidates"]] = {}
    for score in SCORES:
        by_rule = {JOINT: joint[score.name], INDEPENDENT: independent[score.name], **plain}
        rankings |= {(score.name, rule): ranking for rule, ranking in by_rule.items()}
    return rankings


def realized_losses(n_worlds: int) -> dict[tuple[str, str], Float[np.ndarray, " worlds"]]:
    """Judge every rule's rankings by the true values.

    Parameters
    ----------
    n_worlds
        How many worlds, from the first on.

    Returns
    -------
    dict
        (name of the score, rule) -> loss in each world.
    """
    found = {(score.name, rule): np.empty(n_worlds) for score in SCORES for rule in RULES}
    for index in range(n_worlds):
        world = draw_world(index)
        rankings, truth = rank(world), world.true_values[None]
        for score in SCORES:
            for rule in RULES:
                ranking = rankings[score.name, rule][None]
                found[score.name, rule][index] = score.losses(truth, ranking).item()
    return found


def summarize(losses: Losses) -> list[Row]:
    """Compare each rule with the aligned joint one, world by world."""
    rows = []
    for score in SCORES:
        joint = losses[score.name, JOINT]
        root = np.sqrt(len(joint))
        for rule in RULES:
            loss = losses[score.name, rule]
            excess = loss - joint
            row = Row(
                score=score.name.partition("@")[0],
                k=score.k,
                rule=rule,
                worlds=len(joint),
                loss=float(loss.mean()),
                loss_se=float(loss.std(ddof=1) / root),
            )
            if rule != JOINT:
                row = row._replace(
                    excess=float(excess.mean()), excess_se=float(excess.std(ddof=1) / root)
                )
            if np.any(excess):
                p_value = float(ttest_rel(joint, loss, alternative="greater").pvalue)
                row = row._replace(p_value=p_value)
            rows.append(row)
    return rows


def verdicts(rows: list[Row]) -> tuple[str, ...]:
    """Say in sentences whether aligned joint is ever worse, and how far it is ahead.

    Parameters
    ----------
    rows
        From `summarize`.
    """
    bar = LEVEL / N_TESTS
    tested = [(row.p_value, row) for row in rows if row.p_value is not None]
    worse, better = (sum(p < bar for p, _ in tested), sum(1.0 - p < bar for p, _ in tested))
    beaten = {(row.score, row.k) for row in rows if (row.excess or 0.0) < -1e-12}
    top_2 = {row.rule: row for row in rows if (row.score, row.k) == ("regret", 2)}
    joint, mean = top_2[JOINT].loss, top_2[MEAN].loss
    sentences = [
        f"`aligned joint` has the lowest loss of all rules at {len(SCORES) - len(beaten)} of "
        f"{len(SCORES)} scores. It is significantly worse in {worse} of {N_TESTS} comparisons and "
        f"significantly better in {better} ({100 * LEVEL:.0f} % over all of them by Bonferroni: p "
        f"below {LEVEL} / {N_TESTS} = {bar:.2g}, one-sided each way).",
        f"At regret@2 it loses {joint:.5f} where the mean loses {mean:.5f} (difference "
        f"{mean - joint:.5f}, standard error {top_2[MEAN].excess_se:.5f})",
    ]
    if tested:
        smallest, row = min(tested, key=lambda one: one[0])
        at = f"{row.score}@{row.k} against {row.rule}"
        sentences[0] += f" The smallest p value is {smallest:.2g}, at {at}."
    if mean > 0.0:
        sentences[1] += f", a ratio of {joint / mean:.2f}"
    return sentences[0], sentences[1] + "."


def main(n_worlds: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the table and print it."""
    started = time.perf_counter()
    rows = summarize(realized_losses(n_worlds))
    print(f"{n_worlds} worlds: {time.perf_counter() - started:.0f} s", flush=True)
    command = COMMAND if n_worlds == TRIALS else f"{COMMAND} --trials {n_worlds}"
    notes = (*verdicts(rows), *NOTES)
    entries = [row._asdict() for row in rows]
    print(write_table("alignment", entries, command=command, notes=notes, folder=folder))
