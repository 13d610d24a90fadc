"""InfiniteFrozenLake: Gymnasium's slippery walk over the ice, again and again.

Reaching the goal pays 1; after the goal or a hole the walk starts anew. The states keep their
numbers (row times columns plus column), the terminal ones included, though none is ever visited.
"""

from collections.abc import Sequence

from gymnasium.envs.toy_text.frozen_lake import MAPS, FrozenLakeEnv
from gymnasium.utils import RecordConstructorArgs

from bayesdice_ppl.envs.restart import Restart
from bayesdice_ppl.errors import EnvironmentSpecError


class InfiniteFrozenLake(Restart):
    """FrozenLake as an infinite-horizon Markov decision process of 16 states and 4 actions.

    Parameters
    ----------
    map_name
        "4x4" or "8x8", when `desc` is None.
    desc
        Another map, one string for each row: S is the start, F ice, H a hole, G the goal.
    is_slippery
        Whether a step goes in the chosen direction only one time in three, and else to a side.
    render_mode
        None, "ansi", or (with pygame) "human" or "rgb_array".

    Raises
    ------
    EnvironmentSpecError
        If the map is unknown or has no start.

    Notes
    -----
    Yang, Dai, Nachum, Tucker, Schuurmans, "Offline Policy Selection under Uncertainty", appendix
    C.1. `unwrapped` is Gymnasium's own, episodic game.
    """

    metadata = FrozenLakeEnv.metadata

    def __init__(
        self,
        *,
        map_name: str = "4x4",
        desc: Sequence[str] | None = None,
        is_slippery: bool = True,
        render_mode: str | None = None,
    ) -> None:
        if desc is None and map_name not in MAPS:
            raise EnvironmentSpecError(
                f"map_name: expected one of {', '.join(sorted(MAPS))}, found {map_name!r}."
            )
        if desc is not None and not any("S" in row for row in desc):
            raise EnvironmentSpecError("desc: expected a letter S, the start, found no start.")
        # Gymnasium rebuilds the environment from these; the first record wins, so this one must
        # come before the parent's.
        RecordConstructorArgs.__init__(
            self, map_name=map_name, desc=desc, is_slippery=is_slippery, render_mode=render_mode
        )
        lake = FrozenLakeEnv(
            render_mode=render_mode,
            desc=None if desc is None else list(desc),
            map_name=map_name,
            is_slippery=is_slippery,
        )
        super().__init__(lake)
