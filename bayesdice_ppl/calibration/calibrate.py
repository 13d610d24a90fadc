"""Make logs like the user's, fit each as the user does, and hold the beliefs against the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from bayesdice_ppl import checks
from bayesdice_ppl.belief import read_values, read_warnings
from bayesdice_ppl.calibration.calibration import Calibration
from bayesdice_ppl.calibration.resampling import resampled, units_to_draw
from bayesdice_ppl.calibration.worlds import TableWorld, table_world
from bayesdice_ppl.errors import BayesDiceError, PoliciesError, SettingsError
from bayesdice_ppl.fitting import fit
from bayesdice_ppl.keys import check_key, seed_sequence
from bayesdice_ppl.logs import Logs, check_held, check_one_reward
from bayesdice_ppl.policies import Policies, RowPolicy
from bayesdice_ppl.progress import parts
from bayesdice_ppl.simulation import simulate, true_value

if TYPE_CHECKING:
    from xarray import DataTree

KINDS = ("parametric", "sbc", "bootstrap")
TRIALS = 200
DRAWS = 1_000
MOST_REFUSED = 0.5
"""Share of logs that may be refused."""

type Procedure = Callable[..., DataTree]


class _Trial(NamedTuple):
    """A log, and the true values behind it."""

    logs: Logs
    truth: Float[np.ndarray, " N"]


def calibrate(
    source: Any,
    policies: Mapping[str, Any],
    *,
    gamma: float,
    rng_key: PRNGKeyArray,
    kind: str = "parametric",
    trials: int = TRIALS,
    behavior: Any = None,
    n_episodes: int | None = None,
    max_steps: int | None = None,
    procedure: Procedure | None = None,
    **settings: Any,
) -> Calibration:
    """Ask whether a procedure covers on logs like these.

    Parameters
    ----------
    source
        The logs; or an environment whose true values are known, as `bayesdice_ppl.simulate` takes.
    policies
        The candidates.
    gamma
        Discount in [0, 1].
    rng_key
        A key of `jax.random`.
    kind
        How logs like the given ones are made. ``"parametric"``: from the log's own table of what
        followed each pair, whose values are exact; for labels. ``"sbc"``: the same, from another
        table each time, drawn from what the world may be given the log (the rows of each pair get
        random weights), so that ranks of the truth should be uniform. ``"bootstrap"``: from the
        log's own episodes, or groups of episodes, with replacement; the truth is the belief from
        the whole log, so that a bias that both share is not seen. For any log.
    trials
        Number of logs.
    behavior, n_episodes, max_steps
        With an environment, the logging policy, and how much it plays in each log.
    procedure
        What makes a belief: a function of ``(logs, policies, rng_key=...)``. By default
        `bayesdice_ppl.fit` with this gamma and these settings.
    **settings
        Settings of `bayesdice_ppl.fit`. ``draws`` is 1,000 by default.

    Returns
    -------
    Calibration
        Print it, or look at ``.table``, ``.covers`` and ``.missed``.

    Raises
    ------
    LogsError
        The log has several rewards.
    PoliciesError
        A candidate is by logged row, and knows no other logs.
    SettingsError
        A word or a number is none of those above, or more than half of the logs cannot be fitted.

    Notes
    -----
    Simulated rows are in the groups of the log's own: its users, its episodes. Where rewards of one
    group move together in the log, in two ways at most, they do so in simulated logs, whatever unit
    the procedure has. The bootstrap draws such groups as a whole. Where the largest rewards follow
    a heavy tail, simulated logs draw new ones from it. With a declared kind of rewards
    (``bd.Prior(rewards=...)``) that are not of two values, both are left out. Otherwise rows are
    independent, given state and action: what a state hides, stretches of time and a logging policy
    that follows its rewards are not in simulated logs. A pair that the log does not have is stood
    in for by another logged pair, a different one each time.
    """
    check_key(rng_key)
    checks.discount(gamma)
    checks.whole("trials", trials, 20)
    candidates = policies if isinstance(policies, Policies) else Policies(policies)
    fitted = procedure
    if fitted is None:
        given = {"draws": DRAWS, **settings}

        def fitted(logs: Logs, policies: Policies, *, rng_key: PRNGKeyArray) -> DataTree:
            return fit(logs, policies, gamma=gamma, rng_key=rng_key, **given)

    elif settings:
        raise SettingsError(
            f"calibrate: expected no settings beside procedure=, found {', '.join(settings)}. Put "
            "them into the procedure."
        )
    rng = np.random.default_rng(seed_sequence(rng_key))
    keys = jax.random.split(jax.random.fold_in(rng_key, 1), trials + 1)
    _refuse_rows(candidates)
    check_held(source, "a calibration")
    if isinstance(source, Logs):
        checks.one_of("kind", kind, KINDS)
        check_one_reward(source.rewards, "a calibration")
        restart = settings.get("on_termination", "restart") == "restart"
        asked = _columns(settings.get("cluster"))
        made: Iterator[_Trial]
        notes: tuple[str, ...]
        if kind == "bootstrap":
            whole = read_values(fitted(source, candidates, rng_key=keys[trials]))
            # A value of one degree of freedom has no mean, and every one has a median.
            truth = np.median(whole.values, axis=(0, 1))
            drawn = units_to_draw(source, asked)
            notes = (f"The rows of one {drawn.name} were drawn as a whole.",)
            made = (_Trial(resampled(source, drawn.unit, rng), truth) for _ in iter(int, 1))
        else:
            plain = _kind_of_rewards(settings) is not None and len(np.unique(source.reward)) > 2
            world = table_world(
                source, candidates, gamma, restart=restart, asked=asked, plain=plain
            )
            notes = world.rewards.notes
            made = _from_world(world, rng, weights=kind == "sbc")
    else:
        kind, notes = "environment", ()
        if behavior is None or n_episodes is None or max_steps is None:
            raise SettingsError(
                "calibrate: expected behavior=, n_episodes= and max_steps= beside an environment. "
                "To calibrate on logs, give Logs."
            )
        made = _from_environment(
            source, candidates, gamma, (behavior, n_episodes, max_steps), keys[trials]
        )
    return _run(made, candidates, fitted, keys[:trials], kind, notes)


def _refuse_rows(policies: Policies) -> None:
    """Refuse candidates by logged row: rows of another log have other numbers."""
    for name, policy in policies.items():
        if isinstance(policy, RowPolicy):
            raise PoliciesError(
                f"policy {name!r}: expected a candidate that can be asked about other logs, found "
                "one by logged row. Give a table or a function of states."
            )


def _columns(cluster: object) -> tuple[str, ...]:
    """Columns that a fit is asked to take for groups; words that are none count as none."""
    if isinstance(cluster, str):
        return (cluster,)
    return tuple(cluster) if isinstance(cluster, tuple | list) else ()


def _kind_of_rewards(settings: Mapping[str, Any]) -> object:
    """The kind of rewards that a fit is told, or None."""
    return getattr(settings.get("prior"), "rewards", None)


def _from_world(world: TableWorld, rng: Any, *, weights: bool) -> Iterator[_Trial]:
    while True:
        drawn = world.drawn(rng, weights=weights)
        yield _Trial(drawn.play(rng), drawn.values())


def _from_environment(
    env: Any, policies: Policies, gamma: float, play: tuple[Any, int, int], key: PRNGKeyArray
) -> Iterator[_Trial]:
    truth = np.array(
        [
            float(true_value(env, policy, gamma, rng_key=jax.random.fold_in(key, j)))
            for j, policy in enumerate(policies.values())
        ]
    )
    count = len(policies)
    while True:
        yield _Trial(simulate(env, *play, rng_key=jax.random.fold_in(key, count)), truth)
        count += 1


def _run(
    made: Iterator[_Trial],
    policies: Policies,
    fitted: Procedure,
    keys: Any,
    kind: str,
    notes: tuple[str, ...],
) -> Calibration:
    names = tuple(policies)
    found: list[tuple[np.ndarray, ...]] = []
    refused: list[str] = []
    for key, trial in zip(parts("calibration", list(keys)), made, strict=False):
        try:
            belief = fitted(trial.logs, policies, rng_key=key)
        except BayesDiceError as error:
            refused.append(str(error))
            if len(refused) > MOST_REFUSED * len(keys):
                raise SettingsError(
                    f"calibrate: expected logs like these to be fitted, found {len(refused)} that "
                    f"cannot be. The first: {refused[0]}"
                ) from error
            continue
        draws = read_values(belief)
        order = [draws.names.index(name) for name in names]
        flat = draws.values.reshape(-1, len(draws.names))[:, order]
        below = np.mean(flat < trial.truth, axis=0) + 0.5 * np.mean(flat == trial.truth, axis=0)
        warned = {each.policy for each in read_warnings(belief, names) or [] if each.abstain}
        found.append(
            (
                trial.truth,
                flat.mean(axis=0),
                flat.std(axis=0, ddof=1),
                below,
                np.array([name in warned for name in names]),
            )
        )
    truth, mean, sd, pit, abstained = (np.stack(each) for each in zip(*found, strict=True))
    return Calibration(
        names, kind, truth, mean, sd, pit, cast("Any", abstained), tuple(refused), notes
    )
