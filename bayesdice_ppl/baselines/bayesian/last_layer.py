"""Bayesian linear regression of the last layer of a Q network whose other layers are frozen.

Each output has weights of its own and sees the rows with its action, so the posterior is a normal
distribution per output, and the outputs are independent.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from bayesdice_ppl.baselines.value.q_network import PaddedLog
from bayesdice_ppl.errors import LogsError

NOISE_FLOOR = 1e-4
"""Least standard deviation of the noise, in the weights' prior ones: noise 0 has no posterior."""
DIVERGED = 1e3
"""Size of the Bellman error, in the reward's standard deviations over 1 - gamma, of divergence."""


@final
class LastLayer(NamedTuple):
    """A log and a policy as the last layer sees them; K outputs, p features with the constant.

    Rows that have the same features share a cell: states that are labels are counted, not repeated.

    Attributes
    ----------
    logged
        Features of each cell, shape (C, p).
    cell, output
        Cell and output of each row, shape (n,).
    at_state
        Features of each state, shape (S, p); where actions are vectors, of its mean over the
        policy's actions.
    policy
        Weight of each output in each state, shape (S, K).
    start
        Weight of each state among the starts, shape (S,).
    """

    logged: Float[np.ndarray, "C p"]
    cell: Int[np.ndarray, " n"]
    output: Int[np.ndarray, " n"]
    at_state: Float[np.ndarray, "S p"]
    policy: Float[np.ndarray, "S K"]
    start: Float[np.ndarray, " S"]


@final
class Spectrum(NamedTuple):
    """Eigenvalues, shape (K, p), and eigenvectors in columns, (K, p, p), of each Gram matrix."""

    values: Float[np.ndarray, "K p"]
    vectors: Float[np.ndarray, "K p p"]


@final
class Posterior(NamedTuple):
    """Normal distribution of the weights, independent between outputs.

    Attributes
    ----------
    mean
        Shape (K, p).
    variance
        Along each eigenvector, shape (K, p).
    spectrum
        The eigenvectors, and the eigenvalues of the Gram matrices.
    """

    mean: Float[np.ndarray, "K p"]
    variance: Float[np.ndarray, "K p"]
    spectrum: Spectrum

    @property
    def covariance(self) -> Float[np.ndarray, "K p p"]:
        """Covariance of the weights of each output."""
        vectors = self.spectrum.vectors
        return (vectors * self.variance[:, None, :]) @ vectors.swapaxes(1, 2)

    @property
    def fitted_variance(self) -> float:
        """Sum over the rows of the variance of the fitted value."""
        return float((self.spectrum.values * self.variance).sum())


def gram_spectrum(layer: LastLayer) -> Spectrum:
    """Decompose the Gram matrix of each output's rows."""
    size, n_outputs = layer.logged.shape[1], layer.policy.shape[1]
    gram = np.zeros((n_outputs, size, size))
    for k in range(n_outputs):
        count = np.bincount(layer.cell[layer.output == k], minlength=len(layer.logged))
        used = count > 0
        features = layer.logged[used]
        gram[k] = (features * count[used, None]).T @ features
    values, vectors = np.linalg.eigh(gram)
    # Only rounding makes an eigenvalue of a Gram matrix negative.
    return Spectrum(np.maximum(values, 0.0), vectors)


def regress(
    layer: LastLayer,
    spectrum: Spectrum,
    targets: Float[np.ndarray, " n"],
    *,
    noise: float,
    prior: float,
) -> Posterior:
    """Posterior of the weights given targets, with mean 0 before.

    Parameters
    ----------
    layer, spectrum
        The log, and its `gram_spectrum`.
    targets
        One for each row, shape (n,).
    noise, prior
        Variance of a target around its fitted value, and of each weight before.

    Notes
    -----
    With X_k the features of the rows of output k and y_k their targets::

        S_k = (X_k'X_k / noise + I / prior)^-1        m_k = S_k X_k'y_k / noise
    """
    n_outputs, n_cells = layer.policy.shape[1], len(layer.logged)
    sums = np.bincount(
        layer.cell * n_outputs + layer.output, weights=targets, minlength=n_cells * n_outputs
    )
    moment = sums.reshape(n_cells, n_outputs).T @ layer.logged
    variance = 1.0 / (spectrum.values / noise + 1.0 / prior)
    turned = np.einsum("kpi,kp->ki", spectrum.vectors, moment)
    mean = np.einsum("kpi,ki->kp", spectrum.vectors, variance * turned / noise)
    return Posterior(mean, variance, spectrum)


def iterate_regression(
    layer: LastLayer,
    weights: Float[np.ndarray, "K p"],
    table: PaddedLog,
    *,
    restart: bool,
    prior: float,
    regressions: int,
) -> Posterior:
    """Regress the targets that a last layer gives, then those of the posterior mean, and again.

    The first targets are those of ``weights``; ``prior`` is each weight's variance before.

    Raises
    ------
    LogsError
        They diverge.
    """
    n, gamma = int(table.n), float(table.gamma)
    spectrum, spread = gram_spectrum(layer), 0.0
    for _ in range(regressions):
        value = state_values(layer, weights)
        after = layer.start @ value if restart else table.absorbed / (1.0 - gamma)
        following = table.onward * value[table.following] + table.ended * after
        targets = (table.reward + gamma * following)[:n]
        residual = targets - fitted_rows(layer, weights)
        noise = float(residual @ residual + spread) / n
        if not noise <= (DIVERGED / (1.0 - gamma)) ** 2:
            raise LogsError(
                "bdqn: the regressions of the last layer diverge on this log. Use fewer, a smaller "
                "prior_sd, or lstdq."
            )
        noise = max(noise, NOISE_FLOOR**2 * prior)
        posterior = regress(layer, spectrum, targets, noise=noise, prior=prior)
        weights, spread = posterior.mean, posterior.fitted_variance
    return posterior


def fitted_rows(layer: LastLayer, weights: Float[np.ndarray, "K p"]) -> Float[np.ndarray, " n"]:
    """Q of each row."""
    return (layer.logged @ weights.T)[layer.cell, layer.output]


def state_values(layer: LastLayer, weights: Float[np.ndarray, "K p"]) -> Float[np.ndarray, " S"]:
    """V of each state under the policy."""
    return (layer.policy * (layer.at_state @ weights.T)).sum(axis=1)


def start_features(layer: LastLayer) -> Float[np.ndarray, "K p"]:
    """Features of which the mean initial value is the product with the weights."""
    return (layer.policy * layer.start[:, None]).T @ layer.at_state


def draw_products(
    posterior: Posterior,
    features: Float[np.ndarray, "K p"],
    n_draws: int,
    generator: np.random.Generator,
) -> Float[np.ndarray, " S"]:
    """Draws of the product of features and weights.

    Notes
    -----
    Weights are drawn as m + S^(1/2) z with the symmetric root. It does not depend on the
    eigenvectors' signs and order, so the same z means about the same in two similar logs.
    """
    vectors = posterior.spectrum.vectors
    turned = np.einsum("kpi,kp->ki", vectors, features) * np.sqrt(posterior.variance)
    # (m + S^(1/2) z)'c is m'c + z'(S^(1/2) c), so that no draw of all weights is kept.
    root = np.einsum("kpi,ki->kp", vectors, turned)
    normals = generator.standard_normal((n_draws, features.size))
    return float((posterior.mean * features).sum()) + normals @ root.ravel()
