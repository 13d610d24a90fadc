"""InfiniteTaxi: Gymnasium's taxi, which takes the next passenger after each delivery.

A step costs 1, a wrong pick-up or drop-off 10, and a delivery pays 20; then passenger, destination
and taxi are drawn anew. The states keep Gymnasium's numbers. Of these 500, 400 are ever visited: in
the others the passenger stands at the destination.
"""

from gymnasium.envs.toy_text.taxi import TaxiEnv
from gymnasium.utils import RecordConstructorArgs

from bayesdice_ppl.envs.restart import Restart


class InfiniteTaxi(Restart):
    """Taxi as an infinite-horizon Markov decision process of 500 states and 6 actions.

    Parameters
    ----------
    is_rainy
        Whether a move goes aside one time in five.
    render_mode
        None, "ansi", or (with pygame) "human" or "rgb_array".

    Notes
    -----
    Dietterich, "Hierarchical reinforcement learning with the MAXQ value function decomposition"
    (1998), in Gymnasium's Taxi-v4. Its `fickle_passenger` is not offered: whether the passengers
    change their minds depends on the past, so that the game has no table. `unwrapped` is
    Gymnasium's own, episodic game.
    """

    metadata = TaxiEnv.metadata

    def __init__(self, *, is_rainy: bool = False, render_mode: str | None = None) -> None:
        # Before the parent's, which would record an environment that a spec cannot hold.
        RecordConstructorArgs.__init__(self, is_rainy=is_rainy, render_mode=render_mode)
        super().__init__(TaxiEnv(render_mode=render_mode, is_rainy=is_rainy))
