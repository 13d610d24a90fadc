"""How good a clone is, judged on rows that it has not seen: likelihood, calibration, regions.

A wrong logging policy makes wrong ratios and wrong values, and nothing else in a belief shows it.
So every clone carries these numbers, and a sentence that says what they mean.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

from bayesdice_ppl.policies.cloning.gaussians import Gaussians
from bayesdice_ppl.policies.cloning.split import Folds, mean_and_error

GROUPS = 10
"""Groups of rows, of one size, within which a clone is compared with the log."""

DISTANCE = 0.02
"""Calibration beyond its limit by more than this is poor."""

REGION = {"vectors": 0.15, "labels": 0.05}
"""Error by region from which a clone is poor: in standard deviations, or as a probability."""

REPEATED = 0.01
"""Share of rows with one and the same number from which an action has no density."""


@final
class CloneReport(NamedTuple):
    """What the rows held out say of a clone.

    Attributes
    ----------
    form
        ``"counts"``, ``"table"``, ``"linear"``, ``"network"`` or ``"mixture"``.
    vectors
        Whether actions are vectors.
    n_rows, folds
        Rows, and the groups in which they were held out.
    whole_episodes
        Whether these are groups of episodes. With fewer episodes than folds they are blocks of
        rows, which are not independent.
    log_likelihood, standard_error
        Held-out log likelihood per row, in nats, and its standard error by episode. For vectors it
        is of a density, in the units of the actions.
    constant_log_likelihood
        That of the best policy that does not look at the state: shares of labels, or a Gaussian.
    gain_error
        Standard error, by episode, of the difference of the two.
    calibration
        Vectors: the Kolmogorov-Smirnov distance between the uniform distribution and P(A <= a)
        of each held-out number, for the worst number of the action. Labels: the expected
        calibration error, how far the probability of the likeliest action is from how often it
        was taken, in ten groups of rows.
    calibration_limit
        What a right clone exceeds in one log of a hundred.
    region_error
        How far the clone is off in parts of the state space at least, three standard errors taken
        off: along the worst coordinate (or over the states), root mean square over ten groups of
        rows. Vectors: of the mean, or of the log standard deviation, in standard deviations.
        Labels: of an action's probability.
    chi_square, degrees
        Labels: squared difference of the shares of actions from the clone's, in groups of rows
        sorted by the probability of the commonest action, over its variance. A right clone has
        about `degrees`. NaN and 0 for vectors.
    repeated
        Vectors: the largest share of rows in which a number of the action is the same. A density
        gives it none, so clipped actions show here. 0 for labels.
    """

    form: str
    vectors: bool
    n_rows: int
    folds: int
    whole_episodes: bool
    log_likelihood: float
    standard_error: float
    constant_log_likelihood: float
    gain_error: float
    calibration: float
    calibration_limit: float
    region_error: float
    chi_square: float
    degrees: int
    repeated: float

    @property
    def gain(self) -> float:
        """Held-out log likelihood per row beyond that of the best constant policy."""
        return self.log_likelihood - self.constant_log_likelihood

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the clone, a phrase each; none if nothing is seen."""
        found = []
        if self.gain < -2.0 * self.gain_error:
            found.append(
                "it is worse than a policy that does not look at the state (by "
                f"{-self.gain:.3g} nats a row)"
            )
        if self.calibration > self.calibration_limit + DISTANCE:
            found.append(
                f"its probabilities are off ({self.calibration:.3f}, where a right clone stays "
                f"under {self.calibration_limit:.3f})"
            )
        if self.region_error > REGION["vectors" if self.vectors else "labels"]:
            unit = "standard deviations" if self.vectors else "of a probability"
            found.append(f"it is off by {self.region_error:.2f} {unit} in parts of the state space")
        if self.repeated > REPEATED:
            found.append(
                f"one number is the same in {self.repeated:.1%} of the actions, which no density "
                "describes"
            )
        return tuple(found)

    @property
    def poor(self) -> bool:
        """Whether ratios from this clone are not to be trusted."""
        return bool(self.faults)

    @property
    def sentence(self) -> str:
        """The report in plain English."""
        where = "episodes" if self.whole_episodes else "blocks of rows (there are few episodes)"
        text = (
            f"The logging policy was cloned ({self.form}). On held-out {where} its log likelihood "
            f"is {self.log_likelihood:.3f} +- {self.standard_error:.3f} a row, against "
            f"{self.constant_log_likelihood:.3f} for a policy that does not look at the state."
        )
        if not self.poor:
            return f"{text} Its probabilities agree with the log."
        return (
            f"{text} The clone is poor: {'; '.join(self.faults)}. Log the propensities, or use no "
            "action ratio."
        )


def report_vectors(
    form: str,
    held_out: Gaussians,
    action: Float[np.ndarray, "n q"],
    groups: list[Int[np.ndarray, " n"]],
    folds: Folds,
) -> CloneReport:
    """Judge a clone of a policy whose actions are vectors.

    Parameters
    ----------
    form
        Of the clone.
    held_out
        Of each row, by a clone that has not seen its fold.
    action
        What was done.
    groups
        Group of each row along each coordinate of the state.
    folds
        The folds.
    """
    n, q = action.shape
    log_prob = held_out.log_density(action)
    constant = folds.held_out(
        [_constant_gaussian(action, folds.of_row != fold) for fold in range(folds.n_folds)]
    )
    uniform = held_out.distribution(action)
    scores = ndtri(np.clip(uniform, 1e-15, 1.0 - 1e-15))
    off = [_excess(each, scores, np.ones_like(scores)) for each in groups]
    # (z^2 - 1) / 2 is the score of the log standard deviation; its variance is 1/2.
    off += [_excess(each, (scores**2 - 1.0) / 2.0, np.full((n, q), 0.5)) for each in groups]
    most = max(float(np.unique(each, return_counts=True)[1].max()) for each in action.T)
    return CloneReport(
        form,
        True,
        n,
        folds.n_folds,
        folds.whole_episodes,
        *mean_and_error(log_prob, folds.unit),
        float(constant.mean()),
        mean_and_error(log_prob - constant, folds.unit)[1],
        float(max(map(uniform_distance, uniform.T))),
        # The law of the distance far out in its tail, for each of q numbers.
        float(np.sqrt(np.log(2.0 * q / 0.01) / (2.0 * n))),
        max(off, default=0.0),
        float("nan"),
        0,
        most / n if most > 1.0 else 0.0,
    )


def report_labels(
    form: str,
    held_out: Float[np.ndarray, "n A"],
    action: Int[np.ndarray, " n"],
    groups: list[Int[np.ndarray, " n"]],
    folds: Folds,
) -> CloneReport:
    """Judge a clone of a policy whose actions are labels; see `report_vectors`."""
    n, n_actions = held_out.shape
    rows = np.arange(n)
    log_prob = np.log(held_out[rows, action])
    shares = np.bincount(action, minlength=n_actions) / n
    parts = []
    for fold in range(folds.n_folds):
        train = action[folds.of_row != fold]
        seen = (np.bincount(train, minlength=n_actions) + shares) / (len(train) + 1.0)
        parts.append(np.log(seen[action]))
    constant = folds.held_out(parts)
    once = np.zeros((n, n_actions))
    once[rows, action] = 1.0
    variance = held_out * (1.0 - held_out)
    error, limit = calibration_error(held_out, action)
    chi_square, degrees = shares_chi_square(held_out, action)
    return CloneReport(
        form,
        False,
        n,
        folds.n_folds,
        folds.whole_episodes,
        *mean_and_error(log_prob, folds.unit),
        float(constant.mean()),
        mean_and_error(log_prob - constant, folds.unit)[1],
        error,
        limit,
        max((_excess(each, once - held_out, variance) for each in groups), default=0.0),
        chi_square,
        degrees,
        0.0,
    )


def uniform_distance(values: Float[np.ndarray, " n"]) -> float:
    """Kolmogorov-Smirnov distance of numbers in [0, 1] from the uniform distribution."""
    ordered, n = np.sort(values), len(values)
    below = np.arange(n) / n
    return float(np.maximum(ordered - below, below + 1.0 / n - ordered).max())


def calibration_error(
    probability: Float[np.ndarray, "n A"], action: Int[np.ndarray, " n"]
) -> tuple[float, float]:
    """Expected calibration error of the likeliest action, and what a right clone stays under.

    Notes
    -----
    Rows are sorted by their largest probability into ten groups; the error is the mean over rows
    of |share - mean probability| of their group. Under a right clone each is the size of a normal
    number, of mean sd sqrt(2 / pi) and variance sd^2 (1 - 2 / pi); the limit is 2.33 standard
    deviations above the mean of their sum (Guo, Pleiss, Sun and Weinberger, "On calibration of
    modern neural networks", 2017, for the error).
    """
    likeliest = probability.argmax(axis=1)
    confidence = probability[np.arange(len(action)), likeliest]
    group = rank_groups(confidence, GROUPS)
    size = len(action)
    error = np.abs(np.bincount(group, (likeliest == action) - confidence)) / size
    sd = np.sqrt(np.bincount(group, confidence * (1.0 - confidence))) / size
    mean = np.sqrt(2.0 / np.pi) * sd.sum()
    return float(error.sum()), float(mean + 2.33 * np.sqrt((1.0 - 2.0 / np.pi) * np.sum(sd**2)))


def shares_chi_square(
    probability: Float[np.ndarray, "n A"], action: Int[np.ndarray, " n"]
) -> tuple[float, int]:
    """Chi-square of the counts of actions in groups of rows, and its degrees of freedom.

    Notes
    -----
    In each group d = sum_i (1[a_i = .] - p_i) has the covariance C = sum_i (diag p_i - p_i p_i'),
    given the states, under a right clone; the statistic is the sum of d' C^+ d. There are as many
    groups, of ten at most, as leave the rarest action five expected times in each.
    """
    n_actions = probability.shape[1]
    expected = probability.sum(axis=0)
    taken = expected > 0.0
    count = int(np.clip(expected[taken].min() / 5.0, 1, GROUPS))
    group = rank_groups(probability[:, int(expected.argmax())], count)
    statistic, degrees = 0.0, 0
    for which in range(group.max() + 1):
        p = probability[group == which]
        d = np.bincount(action[group == which], minlength=n_actions) - p.sum(axis=0)
        covariance = np.diag(p.sum(axis=0)) - p.T @ p
        values, vectors = np.linalg.eigh(covariance)
        kept = values > 1e-9 * max(values.max(), 1e-300)
        statistic += float(np.sum((vectors[:, kept].T @ d) ** 2 / values[kept]))
        degrees += int(kept.sum())
    return statistic, degrees


def rank_groups(values: Float[np.ndarray, " n"], count: int) -> Int[np.ndarray, " n"]:
    """Cut rows into groups of about one size by their value; equal values stay together."""
    edges = np.unique(np.quantile(values, np.arange(1, count) / count))
    group = np.searchsorted(edges, values, side="right")
    return np.unique(group, return_inverse=True)[1]


def _excess(
    group: Int[np.ndarray, " n"],
    error: Float[np.ndarray, "n k"],
    variance: Float[np.ndarray, "n k"],
) -> float:
    """Root mean square of the mean error by group, of the worst column, beyond what noise makes.

    Under a right clone the square of a group's mean has the mean v and the variance 2 v^2, v being
    the variance of the mean. The sum of the v and three standard deviations are taken off.
    """
    size = np.bincount(group).astype(np.float64)
    weight = size / size.sum()
    worst = 0.0
    for e, v in zip(error.T, variance.T, strict=True):
        mean = np.bincount(group, e) / size
        noise = np.bincount(group, v) / size**2
        excess = weight @ (mean**2 - noise) - 3.0 * np.sqrt(2.0 * np.sum((weight * noise) ** 2))
        worst = max(worst, float(excess))
    return float(np.sqrt(worst))


def _constant_gaussian(action: Float[np.ndarray, "n q"], train: np.ndarray) -> np.ndarray:
    """Log density of all rows under the Gaussian of some."""
    seen = action[train]
    sd = np.maximum(seen.std(axis=0, ddof=1), 1e-12 * np.abs(action).max())
    z = (action - seen.mean(axis=0)) / sd
    density: np.ndarray = -np.sum(0.5 * z**2 + np.log(sd) + 0.5 * np.log(2.0 * np.pi), axis=1)
    return density
