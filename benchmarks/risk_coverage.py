"""Risk against coverage: the surest recommendations should be the best ones.

Logs of mixed quality, one candidate of three to recommend from each. A method that knows how sure
it may be keeps the recommendations that turn out well, and gives up the others first. Drawn as in
Koul, Phielipp and Fern, "Offline Policy Comparison with Confidence" (2022): the loss of the
recommendations that are kept against their share.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

import bayesdice_ppl as bd
from bayesdice_ppl.baselines import make
from benchmarks.promise import KINDS, Kind
from benchmarks.tables import RESULTS, write_table

TRIALS = 48
DRAWS = 400
LEVEL = 0.9
SHARES = tuple(range(10, 101, 10))
RESAMPLES = 1_000
COMMAND = "python -m benchmarks risk_coverage"
BELIEF, RULED = "belief", "belief, abstentions last"
PEERS: Final[Mapping[str, Mapping[str, object]]] = {
    "wis:student:fitted": {},
    "wdr:student:fitted": {},
    "lstdq_bootstrap": {},
    "dirichlet": {"draws": DRAWS},
}
"""Other methods, with their settings."""
NOTES = (
    "Regret: the best candidate's true value less that of the recommended one, over the difference "
    "of the best and the worst. Confidence: the expected value of the same under the belief or the "
    "method's draws; for methods with intervals under independent normals of the same widths. "
    "`claimed`: its mean. `at_10` to `at_100`: mean regret of the surest so many percent. "
    "`aurcc`: area under the curve of mean regret against share, lower is better; `best_aurcc`: "
    "with the same recommendations and perfect confidence. `over_belief`: area less that of the "
    "belief, on the same logs. `rpp`: reverse pair proportion, of two recommendations of different "
    "regret how often the worse one is the surer; 0.5 is chance. Errors by the bootstrap over "
    "logs, within kinds.",
    "`kept`: share of logs that the rule of abstention lets the belief recommend on, `kept_regret` "
    "and `left_regret`: mean regret there and elsewhere.",
    "The kinds of logs are those of promise.md. Log i of a kind has a world of its own, drawn by "
    "`default_rng([number of the kind, 2, i])`, and is drawn by `default_rng([number of the kind, "
    "3, i])`.",
)


class Given(NamedTuple):
    """What a method recommends on one log.

    Attributes
    ----------
    candidate
        The place of the recommended candidate.
    claimed
        What it expects to lose: the normalized regret.
    kept
        Whether it recommends at all.
    """

    candidate: int
    claimed: float
    kept: bool = True


def choose(draws: Float[np.ndarray, "M N"]) -> Given:
    """Recommend the candidate of the least expected normalized regret."""
    best, worst = draws.max(axis=1, keepdims=True), draws.min(axis=1, keepdims=True)
    spread = np.where(best > worst, best - worst, 1.0)
    expected = ((best - draws) / spread).mean(axis=0)
    return Given(int(expected.argmin()), float(expected.min()))


def from_intervals(
    value: Float[np.ndarray, " N"], half_width: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "M N"]:
    """Draws of independent normals that have these central intervals of `LEVEL`."""
    noise = np.random.default_rng(0).normal(size=(DRAWS, len(value)))
    drawn: np.ndarray = value + half_width / ndtri(0.5 + LEVEL / 2) * noise
    return drawn


def by_belief(kind: Kind, logs: bd.Logs, policies: Mapping[str, bd.TabularPolicy]) -> Given:
    """The library's own choice."""
    options = {"rng_key": jax.random.key(0), "draws": DRAWS, **kind.options}
    belief = bd.fit(logs, policies, gamma=kind.gamma, **options)
    chosen = bd.select(belief, bd.scores.normalized_regret(k=1))
    return Given(int(chosen.order[0]), chosen.expected_loss, chosen.recommended)


def by_peer(
    name: str, kind: Kind, logs: bd.Logs, policies: Mapping[str, bd.TabularPolicy]
) -> Given:
    """The choice of another method."""
    method = make(name, **PEERS[name])
    asked = {"gamma": kind.gamma, "level": LEVEL, "rng_key": jax.random.key(0), **kind.options}
    found = [method.estimate(logs, policy, **asked) for policy in policies.values()]
    if all(each.draws is not None for each in found):
        return choose(np.stack([each.draws for each in found], axis=1))
    value = np.array([each.value for each in found])
    return choose(from_intervals(value, np.array([(e.upper - e.lower) / 2 for e in found])))


def curve(
    regret: Float[np.ndarray, " L"], claimed: Float[np.ndarray, " L"]
) -> Float[np.ndarray, " L"]:
    """Mean regret of the 1, 2, ..., L surest recommendations.

    Equally sure ones have their mean: that is the curve's expectation over their orders.
    """
    _, tied = np.unique(claimed, return_inverse=True)
    mean = np.bincount(tied, regret) / np.bincount(tied)
    ordered = np.sort(tied)
    kept: np.ndarray = np.cumsum(mean[ordered]) / np.arange(1, len(regret) + 1)
    return kept


def reversed_pairs(regret: Float[np.ndarray, " L"], claimed: Float[np.ndarray, " L"]) -> float:
    """Of pairs of different regret, the share in which the worse one is surer; ties count half."""
    worse = regret[:, None] > regret
    surer = (claimed[:, None] < claimed) + 0.5 * (claimed[:, None] == claimed)
    return float((worse * surer).sum() / worse.sum()) if worse.any() else float("nan")


def measure(number: int, kind: Kind, trials: int) -> dict[str, list[tuple[float, float, bool]]]:
    """Regret, claimed loss and whether it is kept, of each method on each log of a kind."""
    found: dict[str, list[tuple[float, float, bool]]] = {name: [] for name in (BELIEF, *PEERS)}
    for i in range(trials):
        world = kind.make(np.random.default_rng([number, 2, i]))
        frame = world.play(np.random.default_rng([number, 3, i]))
        actions = list(range(world.tables[0].shape[1]))
        logs = bd.Logs.from_dataframe(frame, actions=actions)
        policies = {str(j): bd.TabularPolicy(table) for j, table in enumerate(world.tables)}
        for name, rows in found.items():
            if name == BELIEF:
                given = by_belief(kind, logs, policies)
            else:
                given = by_peer(name, kind, logs, policies)
            lost = world.truth.max() - world.truth[given.candidate]
            rows.append((float(lost / np.ptp(world.truth)), given.claimed, given.kept))
    return found


def resampled(kinds: Int[np.ndarray, " L"], rng: np.random.Generator) -> Int[np.ndarray, " L"]:
    """Logs drawn anew within each kind, with replacement."""
    places = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
    return np.concatenate([rng.choice(each, len(each)) for each in places])


def summary(
    kinds: Int[np.ndarray, " L"], methods: Mapping[str, Float[np.ndarray, "L 3"]]
) -> list[dict[str, object]]:
    """A row of the table for each method, and one for the belief with its abstentions last.

    Parameters
    ----------
    kinds
        The number of each log's kind.
    methods
        Regret, claimed loss and whether it is kept, on each log, by the name of the method.
    """
    every = {name: (table[:, 0], table[:, 1]) for name, table in methods.items()}
    regret, claimed, kept = methods[BELIEF].T
    # What is abstained from is given up before all else, in the order of its expected loss.
    ruled = {RULED: (regret, claimed + (1.0 - kept) * (1.0 + claimed.max()))}
    every = {BELIEF: every[BELIEF], **ruled, **every}
    areas: dict[str, np.ndarray] = {}
    for name, (lost, sure) in every.items():
        rng = np.random.default_rng(0)
        draws = (resampled(kinds, rng) for _ in range(RESAMPLES))
        areas[name] = np.array([curve(lost[rows], sure[rows]).mean() for rows in draws])
    base, rows = float(curve(*every[BELIEF]).mean()), []
    for name, (lost, sure) in every.items():
        found, own = curve(lost, sure), name == RULED
        left, said = kept == 0.0, every[BELIEF][1] if own else sure
        at = {share: found[max(round(len(found) * share / 100), 1) - 1] for share in SHARES}
        rows.append(
            {
                "method": name,
                "logs": len(lost),
                "claimed": float(said.mean()),
                **{f"at_{share}": float(each) for share, each in at.items()},
                "aurcc": float(found.mean()),
                "aurcc_se": float(areas[name].std(ddof=1)),
                "best_aurcc": float(curve(lost, lost).mean()),
                "over_belief": float(found.mean()) - base,
                "over_belief_se": float((areas[name] - areas[BELIEF]).std(ddof=1)),
                "rpp": reversed_pairs(lost, sure),
                "kept": float(kept.mean()) if own else None,
                "kept_regret": float(regret[~left].mean()) if own and not left.all() else None,
                "left_regret": float(regret[left].mean()) if own and left.any() else None,
            }
        )
    return rows


def main(trials: int = TRIALS, folder: Path = RESULTS, kinds: Sequence[Kind] = KINDS) -> None:
    """Recommend on logs of every kind, and write the table."""
    methods: dict[str, list[tuple[float, float, bool]]] = {name: [] for name in (BELIEF, *PEERS)}
    for number, kind in enumerate(kinds):
        for name, rows in measure(number, kind, trials).items():
            methods[name] += rows
        recent = {n: np.mean([r[0] for r in rows[-trials:]]) for n, rows in methods.items()}
        kept = np.mean([row[2] for row in methods[BELIEF][-trials:]])
        print(kind.name, {n: round(float(r), 3) for n, r in recent.items()}, kept, flush=True)
    of_kind = np.repeat(np.arange(len(kinds)), trials)
    rows = summary(of_kind, {name: np.array(each, float) for name, each in methods.items()})
    print(write_table("risk_coverage", rows, command=COMMAND, notes=NOTES, folder=folder))
