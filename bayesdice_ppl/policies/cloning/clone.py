"""The logging policy, estimated from what it did.

On label states it is counted. On vector states a linear form comes first, and a network, or a
mixture of Gaussians, takes its place only where the rows held out say so. Each clone comes with the
log probability of every logged action, by a clone that has seen its episode and by one that has
not, and with a report of how good it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from bayesdice_ppl.checks import one_of
from bayesdice_ppl.errors import LogsError, SettingsError
from bayesdice_ppl.logs.labels import shown
from bayesdice_ppl.logs.logs import Logs
from bayesdice_ppl.policies.cloning.gaussians import Gaussians, MixturePolicy
from bayesdice_ppl.policies.cloning.linear import (
    LinearGaussian,
    Standard,
    fit_linear_gaussian,
    fit_linear_softmax,
)
from bayesdice_ppl.policies.cloning.report import (
    GROUPS,
    REPEATED,
    CloneReport,
    rank_groups,
    report_labels,
    report_vectors,
)
from bayesdice_ppl.policies.cloning.settings import Clone
from bayesdice_ppl.policies.cloning.split import Folds, mean_and_error, split_episodes
from bayesdice_ppl.policies.cloning.tables import (
    StateCodes,
    counted_shares,
    fit_gaussian_table,
    held_out_shares,
)
from bayesdice_ppl.policies.gaussian import GaussianPolicy
from bayesdice_ppl.policies.interface import ContinuousPolicy, Policy
from bayesdice_ppl.policies.tabular import TabularPolicy

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

LEAST_ROWS = 50
"""Rows without which nothing is cloned."""

KINDS = ("in_sample", "held_out")
"""Clones that may judge a logged row: with its episode among what they saw, or without."""


@final
class ClonedPolicy(NamedTuple):
    """A clone of the logging policy.

    Attributes
    ----------
    policy
        The clone, usable as a candidate: `TabularPolicy`, `SoftmaxPolicy`, `GaussianPolicy` or
        `MixturePolicy`. An action that was never logged has probability 0.
    report
        How good it is.
    in_sample
        Log probability of each logged action under `policy`, shape (n,).
    held_out
        The same under a clone that has not seen the row's fold of episodes, shape (n,).
    """

    policy: Policy | ContinuousPolicy
    report: CloneReport
    in_sample: Float[np.ndarray, " n"]
    held_out: Float[np.ndarray, " n"]

    def log_prob_of_log(self, kind: str = "in_sample") -> Float[np.ndarray, " n"]:
        """Log probability, or log density, of each logged action, shape (n,).

        Parameters
        ----------
        kind
            ``"in_sample"``: under the clone of the whole log. ``"held_out"``: each row under a
            clone that has not seen its episode.
        """
        one_of("kind", kind, KINDS)
        return self.in_sample if kind == "in_sample" else self.held_out


@final
class SoftmaxPolicy:
    """Probabilities of labels from a function of vector states.

    Parameters
    ----------
    shares
        Function of states (b, p) to probabilities (b, A).
    """

    __slots__ = ("shares",)

    def __init__(self, shares: Callable[[Any], Float[np.ndarray, "b A"]]) -> None:
        self.shares = shares

    def probs(self, obs: Float[Any, "batch p"]) -> Float[np.ndarray, "batch A"]:
        """Probabilities of the actions in the log's action space, shape (batch, A)."""
        return self.shares(obs)


class Fitted[Law](NamedTuple):
    """One form of clone.

    Attributes
    ----------
    form
        Its name.
    law
        Function of states to probabilities or `Gaussians`.
    in_sample, held_out
        The law of each row, by the clone of the whole log and by one that has not seen its fold.
    """

    form: str
    law: Callable[[Any], Law]
    in_sample: Law
    held_out: Law


def clone_policy(logs: Logs, rng_key: PRNGKeyArray, settings: Clone | None = None) -> ClonedPolicy:
    """Estimate the policy that acted when the log was written.

    Parameters
    ----------
    logs
        Logged transitions, n of them, of one policy. Rewards and successors are not read.
    rng_key
        A JAX key: it deals out the folds, and draws the network's first weights and batches.
    settings
        None: the defaults of `Clone`.

    Raises
    ------
    LogsError
        There are too few rows; the log has one action only; an action is a function of the state.
    SettingsError
        The form does not suit the log.

    Notes
    -----
    *Label states*: shares n_sa / n_s of labels; a Gaussian in each state for vectors.
    *Vector states*: of labels a softmax of linear scores, of vectors a Gaussian of constant spread
    around a linear mean. A network (64 x 64, with a linear skip) is added to the scores, or to mean
    and log standard deviation, and taken if the held-out log likelihood is better by one standard
    error. A mixture of Gaussians is tried where the network's distribution function shows
    that one Gaussian is not enough, and taken by the same rule.
    """
    import jax

    from bayesdice_ppl.keys import check_key

    check_key(rng_key)
    settings = Clone() if settings is None else settings
    check_rows(logs, settings)
    if logs.allowed is not None and logs.vector_states:
        raise LogsError(
            "column 'allowed_actions': a clone of a policy on vectors does not know which actions "
            "each row allows. Log the propensity of each action, or choose behavior='none'."
        )
    key_folds, key_network = jax.random.split(rng_key)
    folds = split_episodes(logs, settings.folds, key_folds)
    if logs.vector_actions:
        return _clone_vectors(logs, folds, settings, key_network)
    return _clone_labels(logs, folds, settings, key_network)


def _clone_labels(logs: Logs, folds: Folds, settings: Clone, rng_key: PRNGKeyArray) -> ClonedPolicy:
    """Clone a policy whose actions are labels."""
    action, n_actions = logs.action, len(logs.action_labels)
    rows = np.arange(logs.n_transitions)
    policy: Policy
    if not logs.vector_states:
        shape = len(logs.state_labels), n_actions
        whole = counted_shares(logs.state, action, shape)
        held = [
            held_out_shares(logs.state, action, shape, folds.of_row != fold)[logs.state]
            for fold in range(folds.n_folds)
        ]
        visited = whole.any(axis=1)
        policy = TabularPolicy(whole[visited], logs.state_labels[visited], logs.action_labels)
        in_sample, held_out, form = whole[logs.state], folds.held_out(held), "counts"
    else:
        found = _best_softmax(logs, folds, settings, rng_key)
        policy = SoftmaxPolicy(_in_space(found.law, logs))
        in_sample, held_out, form = found.in_sample, found.held_out, found.form
    return ClonedPolicy(
        policy,
        report_labels(form, held_out, action, _regions(logs), folds),
        np.log(in_sample[rows, action]),
        np.log(held_out[rows, action]),
    )


def _clone_vectors(
    logs: Logs, folds: Folds, settings: Clone, rng_key: PRNGKeyArray
) -> ClonedPolicy:
    """Clone a policy whose actions are vectors."""
    action = logs.action_vector
    policy: ContinuousPolicy
    if not logs.vector_states:
        sets = [folds.of_row != fold for fold in range(folds.n_folds)]
        sets.append(np.ones(logs.n_transitions, dtype=bool))
        tables = [
            fit_gaussian_table(logs.state, action, len(logs.state_labels), train) for train in sets
        ]
        codes = StateCodes(logs.state_labels)
        policy = MixturePolicy(lambda obs: tables[-1].at(codes(obs)))
        laws = [table.at(logs.state) for table in tables]
        in_sample, held_out, form = laws[-1], _held_out_gaussians(folds, laws[:-1]), "table"
    else:
        found, linear = _best_gaussians(logs, folds, settings, rng_key)
        policy = MixturePolicy(found.law) if linear is None else linear
        in_sample, held_out, form = found.in_sample, found.held_out, found.form
    return ClonedPolicy(
        policy,
        report_vectors(form, held_out, action, _regions(logs), folds),
        in_sample.log_density(action),
        held_out.log_density(action),
    )


def _best_softmax(
    logs: Logs, folds: Folds, settings: Clone, rng_key: PRNGKeyArray
) -> Fitted[Float[np.ndarray, "n A"]]:
    """The linear clone, or the network where it is better."""
    standard = Standard.of(logs.observation)
    x, action = standard(logs.observation), logs.action
    n_actions, everything = len(logs.action_labels), np.ones(len(action), dtype=bool)
    whole = fit_linear_softmax(x, action, n_actions, everything)
    linear = [
        fit_linear_softmax(x, action, n_actions, folds.of_row != fold, whole)
        for fold in range(folds.n_folds)
    ]
    scores = [each.scores(x) for each in (*linear, whole)]
    simple = Fitted(
        "linear",
        lambda obs: softmax(whole.scores(standard(obs)), axis=1),
        softmax(scores[-1], axis=1),
        softmax(folds.held_out(scores[:-1]), axis=1),
    )
    if settings.form == "linear":
        return simple
    from bayesdice_ppl.policies.cloning.networks import SoftmaxHead, train_networks

    codes = np.broadcast_to(action[:, None], (len(scores), len(action), 1))
    target = np.concatenate([np.stack(scores), codes], axis=2)
    found = train_networks(x, target, folds, SoftmaxHead(n_actions), settings, rng_key)

    def law(obs: Any) -> Float[np.ndarray, "b A"]:
        z = standard(obs)
        shares: Float[np.ndarray, "b A"] = softmax(whole.scores(z) + found.whole(z, np), axis=1)
        return shares

    network = Fitted(
        "network",
        law,
        softmax(scores[-1] + found.in_sample, axis=1),
        softmax(folds.held_out(scores[:-1]) + found.held_out, axis=1),
    )
    rows = np.arange(len(action))
    gain = np.log(network.held_out[rows, action]) - np.log(simple.held_out[rows, action])
    return network if settings.form == "network" or _better(gain, folds) else simple


def _best_gaussians(
    logs: Logs, folds: Folds, settings: Clone, rng_key: PRNGKeyArray
) -> tuple[Fitted[Gaussians], GaussianPolicy | None]:
    """The linear clone, a network or a mixture; and the first as a `GaussianPolicy` if it is it."""
    standard = Standard.of(logs.observation)
    x, action = standard(logs.observation), logs.action_vector
    whole = fit_linear_gaussian(x, action, np.ones(len(x), dtype=bool))
    _check_noise(whole, action)
    fits = [
        *(fit_linear_gaussian(x, action, folds.of_row != fold) for fold in range(folds.n_folds)),
        whole,
    ]
    laws = [_around(each, x) for each in fits]
    best = Fitted(
        "linear",
        lambda obs: _around(whole, standard(obs)),
        laws[-1],
        _held_out_gaussians(folds, laws[:-1]),
    )
    as_policy = GaussianPolicy(_linear_mean(standard, whole), whole.sd)
    if settings.form == "linear":
        return best, as_policy
    from bayesdice_ppl.policies.cloning.networks import GaussianHead, train_networks

    target = np.stack([(action - each.mean(x)) / each.sd for each in fits])
    q = action.shape[1]

    def train(form: str, components: int) -> Fitted[Gaussians]:
        head = GaussianHead(components, q)
        found = train_networks(x, target, folds, head, settings, rng_key)

        def read(outputs: np.ndarray, base: Gaussians) -> Gaussians:
            log_weight, mean, sd = head.parts(outputs, np)
            return Gaussians(log_weight, base.mean + base.sd * mean, base.sd * sd)

        def law(obs: Any) -> Gaussians:
            z = standard(obs)
            return read(found.whole(z, np), _around(whole, z))

        linear_held_out = _held_out_gaussians(folds, laws[:-1])
        return Fitted(
            form, law, read(found.in_sample, laws[-1]), read(found.held_out, linear_held_out)
        )

    if settings.form != "mixture":
        network = train("network", 1)
        if settings.form == "network" or _improves(network, best, action, folds):
            best = network
    if settings.form == "mixture" or (settings.form == "auto" and _not_normal(best, action, folds)):
        mixture = train("mixture", settings.components)
        if settings.form == "mixture" or _improves(mixture, best, action, folds):
            best = mixture
    return best, as_policy if best.form == "linear" else None


def _improves(
    new: Fitted[Gaussians], old: Fitted[Gaussians], action: np.ndarray, folds: Folds
) -> bool:
    gain = new.held_out.log_density(action) - old.held_out.log_density(action)
    return _better(gain, folds)


def _better(gain: Float[np.ndarray, " n"], folds: Folds) -> bool:
    """Whether the mean of a gain is above its standard error, which ties seldom are."""
    mean, error = mean_and_error(gain, folds.unit)
    return mean > error


def _not_normal(best: Fitted[Gaussians], action: np.ndarray, folds: Folds) -> bool:
    """Whether held-out actions are not those of one Gaussian; clipped ones are none of several."""
    seen = report_vectors(best.form, best.held_out, action, [], folds)
    return seen.calibration > seen.calibration_limit and seen.repeated <= REPEATED


def _around(fit: LinearGaussian, x: Float[np.ndarray, "b p"]) -> Gaussians:
    mean = fit.mean(x)[:, None]
    return Gaussians(np.zeros(mean.shape[:2]), mean, np.broadcast_to(fit.sd, mean.shape))


def _linear_mean(standard: Standard, fit: LinearGaussian) -> Callable[[Any], Any]:
    """The mean as one linear function of the observation itself."""
    weights = fit.weights / standard.scale[:, None]
    constant = fit.constant - standard.center @ weights
    return lambda obs: obs @ weights + constant


def _held_out_gaussians(folds: Folds, laws: list[Gaussians]) -> Gaussians:
    parts = zip(*laws, strict=True)
    return Gaussians(*(folds.held_out(list(each)) for each in parts))


def _in_space(
    law: Callable[[Any], Float[np.ndarray, "b A"]], logs: Logs
) -> Callable[[Any], Float[np.ndarray, "b A"]]:
    """Columns in the order of the declared action space; zeros for what was never logged."""
    if logs.declared_actions is None:
        return law
    where = {label: column for column, label in enumerate(logs.declared_actions.tolist())}
    columns = [where[label] for label in logs.action_labels.tolist()]
    size = len(where)

    def spread(obs: Any) -> Float[np.ndarray, "b A"]:
        shares = law(obs)
        wide = np.zeros((len(shares), size))
        wide[:, columns] = shares
        return wide

    return spread


def _regions(logs: Logs) -> list[Int[np.ndarray, " n"]]:
    """Groups of rows along each coordinate that varies; or one grouping, by label."""
    if not logs.vector_states:
        return [np.unique(logs.state, return_inverse=True)[1]]
    return [rank_groups(each, GROUPS) for each in logs.observation.T if np.ptp(each) > 0.0]


def check_rows(logs: Logs, settings: Clone) -> None:
    """Refuse a log from which no policy can be cloned, and a form that does not suit it."""
    n = logs.n_transitions
    weights = logs.state_labels.shape[1] + 1 if logs.vector_states else 0
    least = max(LEAST_ROWS, 2 * weights * settings.folds // (settings.folds - 1))
    if n < least:
        raise LogsError(
            f"the log: expected at least {least} rows to clone the logging policy, found {n}. Add "
            "rows, or a column propensity and behavior='logged'."
        )
    if settings.form != "auto" and not logs.vector_states:
        raise SettingsError(
            f"form: expected 'auto' for states that are labels, which are counted, found "
            f"{settings.form!r}."
        )
    if settings.form == "mixture" and not logs.vector_actions:
        raise SettingsError(
            "form: expected 'auto', 'linear' or 'network' for actions that are labels, found "
            "'mixture'."
        )
    if not logs.vector_actions:
        if len(np.unique(logs.action)) == 1:
            label = logs.action_labels[logs.action[0]]
            raise LogsError(
                f"the log: expected at least two different actions to clone the logging policy, "
                f"found {shown(label)} in every row. Nothing can be weighted by what was never "
                "done."
            )
        return
    for column, numbers in enumerate(logs.action_vector.T):
        if np.ptp(numbers) == 0.0:
            raise LogsError(
                f"column 'action_{column}': expected different numbers to clone the logging "
                f"policy, found {numbers[0]:g} in every row. Leave the column out."
            )
        count = np.unique(numbers, return_counts=True)[1].max()
        if 2 * count > n:
            raise LogsError(
                f"column 'action_{column}': expected numbers that have a density, found one of "
                f"them in {count / n:.0%} of the rows. Log actions before they are clipped, or "
                "give labels."
            )


def _check_noise(fit: LinearGaussian, action: Float[np.ndarray, "n q"]) -> None:
    """Refuse actions that are a linear function of the state: they have no density."""
    still = fit.sd <= 1e-6 * action.std(axis=0)
    if still.any():
        raise LogsError(
            f"column 'action_{int(np.flatnonzero(still)[0])}': expected actions that vary in one "
            "and the same state, found a linear function of it. A logging policy without noise "
            "has no density, and no ratio: use behavior='none'."
        )
