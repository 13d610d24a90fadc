"""Skewness: would a belief with skewness and lighter tails be narrower than Student's t, and hold.

On two-armed bandits with few pulls Student's t is wider than the exact Beta posterior of rewards
that are 0 or 1. The library bends it by the Gamma of the errors' third moment. Two other remedies
that know nothing of the rewards' kind are tried on the same logs: the third moment bends the
quantiles (Wilson and Hilferty, 1931), and the fourth sets the tails, which for two-valued rewards
are a normal's, as their spread follows from their mean.
"""

import itertools
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.stats import t as student

from bayesdice_ppl.experiments.coverage import LEVELS, coverage_of
from bayesdice_ppl.inference.skewness import skewness_of, standard_quantile
from bayesdice_ppl.keys import seed_sequence
from benchmarks.tables import RESULTS, write_table

TRIALS = 2000
PULLS = (10, 25, 50, 100)
KINDS = ("0 or 1", "normal", "exponential")
ARMS = ((0.75, 0.25), (0.6, 0.5))
BEHAVIORS = (0.5, 0.25)
TARGETS = (0.9, 0.5)
FORMS = ("student t", "library", "skewed", "skewed, adaptive tails", "beta posterior")
TAILS = np.concatenate([(1.0 - np.array(LEVELS)) / 2.0, (1.0 + np.array(LEVELS)) / 2.0])
COMMAND = "python -m benchmarks skewness"
NOTES = (
    "One row is one kind of reward, number of pulls and form of belief, over eight bandits: arms "
    f"of means {ARMS[0]} and {ARMS[1]}, the first pulled with probability "
    f"{' or '.join(map(str, BEHAVIORS))} in the log, and {' or '.join(map(str, TARGETS))} by the "
    "policy that is judged. `logs`: how many in all, without those in which an arm was never "
    "pulled. `mace`: mean over the bandits of the five levels' mean |coverage - nominal|; `worst`: "
    "the largest. `coverage_90` is a mean, too; `width_50`, `width_90` are mean ratios of the "
    "median width to Student t's.",
    "`student t` is the library's belief without skewness and hidden variance, `library` with "
    "them (`bayesdice_ppl.inference.skewness`). `skewed` bends its quantiles by the third central "
    "moment of the rewards within an arm. `adaptive tails` counts degrees of freedom, and divides "
    "sums of "
    "squares, by what is left of the squares' variance when they are regressed on the rewards "
    "(nothing for two-valued rewards, all of it for a normal), pooled over arms with the weight of "
    "two rewards of a normal. `beta posterior` knows that rewards are 0 or 1, and has the prior "
    "Beta(1, 1).",
)


class Sums(NamedTuple):
    """Per trial and arm, shapes (T, 2): pulls, mean, and sums of powers of what is off it."""

    pulls: np.ndarray
    mean: np.ndarray
    second: np.ndarray
    third: np.ndarray
    fourth: np.ndarray


def play(
    kind: str, arms: tuple[float, float], behavior: float, n: int, trials: int, seed: int
) -> Sums:
    """Play bandits; logs in which an arm was never pulled are left out."""
    rng = np.random.default_rng(seed_sequence(jax.random.key(seed)))
    first = rng.random((trials, n)) < behavior
    mean = np.where(first, *arms)
    if kind == "0 or 1":
        reward = (rng.random((trials, n)) < mean).astype(np.float64)
    elif kind == "normal":
        reward = rng.normal(mean, 0.5)
    else:
        reward = rng.exponential(mean)
    found = []
    for pulled in (first, ~first):
        pulls = pulled.sum(axis=1)
        center = (reward * pulled).sum(axis=1) / np.maximum(pulls, 1)
        off = (reward - center[:, None]) * pulled
        found.append((pulls, center, *((off**power).sum(axis=1) for power in (2, 3, 4))))
    sums = np.array(found).transpose(1, 2, 0)
    return Sums(*sums[:, (sums[0] > 0).all(axis=1)])


def tail_share(sums: Sums) -> np.ndarray:
    """Share of a normal's tails that the rewards' squares leave, shape (T,)."""
    n, second = sums.pulls, sums.second
    safe = np.where(second > 0.0, second, 1.0)
    left = np.maximum(sums.fourth - second**2 / n - sums.third**2 / safe, 0.0)
    pool = second.sum(axis=1) / np.maximum((n - 1).sum(axis=1), 1)
    spread = (second + 2.0 * pool[:, None]) / (n + 1.0)
    normal = 2.0 * np.maximum(n - 2, 0) * spread**2
    prior = 2.0 * 2.0 * pool**2
    whole = normal.sum(axis=1) + prior
    return np.where(whole > 0.0, (left.sum(axis=1) + prior) / np.where(whole > 0.0, whole, 1.0), 1)


class Shape(NamedTuple):
    """Location, scale, degrees of freedom and skewness of a value, shapes (T,)."""

    mean: np.ndarray
    scale: np.ndarray
    degrees_of_freedom: np.ndarray
    skewness: np.ndarray


def believe(sums: Sums, target: float, form: str) -> Shape:
    """Belief of a policy's value in one of the forms but the last."""
    share = np.array([target, 1.0 - target])
    n, second = sums.pulls, sums.second
    tails = tail_share(sums) if form.endswith("tails") else np.ones(len(n))
    pool = second.sum(axis=1) / np.maximum((n - 1).sum(axis=1), 1)
    variance = share**2 * (second + 2.0 * pool[:, None]) / (n + 2.0 - tails[:, None]) / n
    scale = np.sqrt(variance.sum(axis=1))
    heavy = (variance**2 * tails[:, None] / (n + 1.0)).sum(axis=1)
    df = np.where(heavy > 0.0, scale**4 / np.where(heavy > 0.0, heavy, 1.0), np.inf)
    if form == "library":
        return bend(sums, share, Shape(sums.mean @ share, scale, df, np.zeros(len(n))))
    if form == "student t":
        skewness = np.zeros(len(n))
    else:
        third = (share**3 * sums.third / (n + 2.0) / n**2).sum(axis=1)
        # Past 1.5 an expansion in the third moment means nothing.
        skewness = 2.0 * third / np.where(scale > 0.0, scale, 1.0) ** 3
        skewness = np.clip(skewness, -1.5, 1.5)
    return Shape(sums.mean @ share, scale, df, skewness)


def bend(sums: Sums, share: np.ndarray, plain: Shape) -> Shape:
    """The library's belief, from Student's t."""
    n, second = sums.pulls, sums.second
    repeats = np.maximum((n - 1).sum(axis=1), 1)[:, None]
    pool, pool_3 = (x.sum(axis=1)[:, None] / repeats for x in (second, sums.third))
    squares = (second**2 / n).sum(axis=1)
    noise = sums.fourth.sum(axis=1) - squares
    varies = squares > 0.0
    weight = np.where(varies, np.maximum(noise / np.where(varies, squares, 1.0), 2.0), 2.0)[:, None]
    rest = n * (n - 1.0 + weight)
    wide = (share**2 * (second + weight * pool) / rest).sum(axis=1)
    seen = (share**2 * second / n**2).sum(axis=1)
    variance = np.maximum(np.maximum(wide, seen), plain.scale**2)
    third = (share**3 * (sums.third + weight * pool_3) / (n * rest)).sum(axis=1)
    skewness = skewness_of(third, variance, plain.degrees_of_freedom)
    return plain._replace(scale=np.sqrt(variance), skewness=skewness)


def ends(shape: Shape, form: str = "") -> np.ndarray:
    """Lower ends at each level and upper ends, shape (T, 2 L)."""
    if form == "library":
        score = np.repeat(student.ppf(TAILS, np.inf)[:, None], len(shape.mean), axis=1)
        bent = standard_quantile(score, shape.degrees_of_freedom, shape.skewness).T
        return shape.mean[:, None] + shape.scale[:, None] * bent
    # Past a million degrees of freedom SciPy's quantiles are a normal's.
    score = student.ppf(TAILS, np.minimum(shape.degrees_of_freedom, 1e6)[:, None])
    bent = shape.skewness[:, None]
    safe = np.where(np.abs(bent) < 1e-6, 1.0, bent)
    cubed = 2.0 / safe * ((1.0 + safe * score / 6.0 - safe**2 / 36.0) ** 3 - 1.0)
    score = np.where(np.abs(bent) < 1e-6, score, cubed)
    return shape.mean[:, None] + shape.scale[:, None] * score


def beta_ends(sums: Sums, target: float, seed: int, draws: int = 4000) -> np.ndarray:
    """The same of the exact posterior of rewards that are 0 or 1, by draws."""
    # A stream of its own, and not that which played the log.
    rng = np.random.default_rng(seed_sequence(jax.random.fold_in(jax.random.key(seed), 1)))
    won = np.rint(sums.mean * sums.pulls)[..., None]
    rates = rng.beta(won + 1.0, sums.pulls[..., None] - won + 1.0, size=(*won.shape[:2], draws))
    value = target * rates[:, 0] + (1.0 - target) * rates[:, 1]
    return np.quantile(value, TAILS, axis=1).T


def run(kind: str, n: int, trials: int) -> list[dict[str, object]]:
    """Rows of one kind of reward and number of pulls."""
    found: dict[str, list[np.ndarray]] = {}
    kept: dict[str, int] = {}
    bandits = itertools.product(ARMS, BEHAVIORS, TARGETS)
    for seed, (arms, behavior, target) in enumerate(bandits):
        sums = play(kind, arms, behavior, n, trials, seed)
        truth = target * arms[0] + (1.0 - target) * arms[1]
        plain = np.ones(len(LEVELS))
        for form in FORMS[: None if kind == "0 or 1" else -1]:
            if form == FORMS[-1]:
                given = beta_ends(sums, target, seed)
            else:
                given = ends(believe(sums, target, form), form)
            low, high = given[:, : len(LEVELS)], given[:, len(LEVELS) :]
            held = (low - 1e-12 <= truth) & (truth <= high + 1e-12)
            coverage = coverage_of(held, np.array(LEVELS), seed=0)
            kept[form] = kept.get(form, 0) + len(held)
            width = np.median(high - low, axis=0)
            plain = width if form == "student t" else plain
            found.setdefault(form, []).append(
                np.array([coverage.levels[3], coverage.mace, *(width / plain)[[0, 3]]])
            )
    rows: list[dict[str, object]] = []
    for form, each in found.items():
        mean, most = np.mean(each, axis=0), np.max(each, axis=0)
        rows.append(
            {
                "rewards": kind,
                "pulls": n,
                "form": form,
                "logs": kept[form],
                "coverage_90": float(mean[0]),
                "mace": float(mean[1]),
                "worst": float(most[1]),
                "width_50": float(mean[2]),
                "width_90": float(mean[3]),
            }
        )
    return rows


def main(n_trials: int = TRIALS, folder: Path = RESULTS) -> None:
    """Fill the table of forms of belief and print it."""
    rows = []
    for kind in KINDS:
        started = time.perf_counter()
        for n in PULLS:
            rows += run(kind, n, n_trials)
        print(f"{kind}: {time.perf_counter() - started:.0f} s", flush=True)
    command = COMMAND if n_trials == TRIALS else f"{COMMAND} --trials {n_trials}"
    print(write_table("skewness", rows, command=command, notes=NOTES, folder=folder))
