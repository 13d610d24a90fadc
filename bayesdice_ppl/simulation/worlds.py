"""Worlds by name, with a logging policy and candidates: what the command line simulates.

A world here is the whole setting of an experiment: the environment, the policy that writes the
logs, the candidates to choose from, and the discount at which the choice is usually posed.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.policies import Policies, TabularPolicy

CANDIDATES = (0.75, 0.8, 0.85, 0.9, 0.95)
"""Alphas of the paper's five candidates (Yang et al., appendix C.1)."""


class World(NamedTuple):
    """The setting of an experiment.

    Parameters
    ----------
    env
        The tabular environment, which never terminates.
    behavior
        The policy that writes the logs.
    candidates
        The policies to choose from.
    gamma_hint
        The discount at which this world is usually judged.
    """

    env: Any
    behavior: TabularPolicy
    candidates: Policies
    gamma_hint: float


def make_world(
    name: str, *, alpha: float = 0.0, candidates: Sequence[float] = CANDIDATES, **options: Any
) -> World:
    """Build a world by its name.

    Parameters
    ----------
    name
        "bandit", "frozenlake" or "garnet".
    alpha
        The logging policy's place in the world's family of policies, in [0, 1]. The bandit's
        alpha = 0 never pulls the best arm, so its logs say nothing about the candidates.
    candidates
        The candidates' places, each in [0, 1], all different; named `alpha_0.75` and so on.
    **options
        bandit: `arms`. frozenlake: `map_name`, `desc`, `is_slippery`. garnet: `world_seed`
        (default 0: which world, and which random policy), `n_states`, `n_actions`, `branching`,
        `reward_sparsity`, `termination` (then restarted), `irreducible`.

    Returns
    -------
    World
        Environment, logging policy, candidates and discount.

    Raises
    ------
    SettingsError
        If the name or an option is unknown, or there are no or repeated candidates.
    EnvironmentSpecError
        If an option's value or an alpha is out of its range.
    """
    if name not in _BUILDERS:
        raise SettingsError(f"world: expected one of {', '.join(sorted(_BUILDERS))}, got {name!r}")
    build, allowed = _BUILDERS[name]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise SettingsError(
            f"world {name!r} has no option {unknown[0]!r}; its options are {', '.join(allowed)}"
        )
    if not candidates or len(set(candidates)) != len(candidates):
        raise SettingsError(
            f"candidates: expected one or more different alphas, got {list(candidates)}"
        )
    env, policy_at, gamma_hint = build(options)
    targets = Policies({_policy_name(one): policy_at(one) for one in candidates})
    return World(env, policy_at(alpha), targets, gamma_hint)


def _policy_name(alpha: float) -> str:
    # Two digits for the usual round alphas, so that names line up; as many as needed otherwise.
    return f"alpha_{alpha:.2f}" if round(alpha, 2) == alpha else f"alpha_{alpha}"


_Built = tuple[Any, Callable[[float], TabularPolicy], float]


def _bandit(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import Bandit, bandit_policy

    env = Bandit(**options)
    return env, lambda alpha: bandit_policy(env, alpha), 0.0


def _frozen_lake(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import InfiniteFrozenLake, frozen_lake_policy

    env = InfiniteFrozenLake(**options)
    return env, lambda alpha: frozen_lake_policy(env, alpha), 0.99


def _garnet(options: dict[str, Any]) -> _Built:
    from bayesdice_ppl.envs import Garnet, Restart, garnet_policy

    sizes = {key: value for key, value in options.items() if key != "world_seed"}
    seed = options.get("world_seed", 0)
    # Restart changes nothing where nothing terminates.
    env = Restart(Garnet(seed=seed, **sizes))
    return env, lambda alpha: garnet_policy(env, alpha, seed=seed), 0.95


_BUILDERS: dict[str, tuple[Callable[[dict[str, Any]], _Built], tuple[str, ...]]] = {
    "bandit": (_bandit, ("arms",)),
    "frozenlake": (_frozen_lake, ("map_name", "desc", "is_slippery")),
    "garnet": (
        _garnet,
        (
            "world_seed",
            "n_states",
            "n_actions",
            "branching",
            "reward_sparsity",
            "termination",
            "irreducible",
        ),
    ),
}
