"""InfiniteCartPole: a pole to be balanced without end, set upright again whenever it falls.

Each fall costs 1 and nothing else counts, so that a policy's value is minus its (discounted) falls
per step. Its states are vectors, so that it has no table and its true values are simulated.
"""

from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.utils import RecordConstructorArgs

from bayesdice_ppl.envs.restart import Restart


class InfiniteCartPole(Restart):
    """CartPole as an infinite-horizon Markov decision process.

    Parameters
    ----------
    render_mode
        None, or (with pygame) "human" or "rgb_array".

    Notes
    -----
    Barto, Sutton, Anderson, "Neuronlike adaptive elements that can solve difficult learning
    control problems" (1983), in Gymnasium's CartPole with that paper's reward: -1 for a fall, 0
    otherwise. Observations are position (m), velocity (m/s), angle (rad) and angular velocity
    (rad/s); action 0 pushes left and 1 right.
    """

    metadata = CartPoleEnv.metadata

    def __init__(self, *, render_mode: str | None = None) -> None:
        RecordConstructorArgs.__init__(self, render_mode=render_mode)
        super().__init__(CartPoleEnv(sutton_barto_reward=True, render_mode=render_mode))
