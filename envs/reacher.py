"""InfiniteReacher: MuJoCo's two-jointed arm, which gets a new target at random, without end.

The paper's continuous-control world: at each step arm and target are drawn anew with probability
0.03, so that the game is ergodic and its discounted and average values are those of one chain.
It needs the `mujoco` extra.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Float

from bayesdice_ppl.envs.checks import check_share
from bayesdice_ppl.envs.networks import Network, apply, load_network
from bayesdice_ppl.envs.restart import Restart
from bayesdice_ppl.errors import EnvironmentSpecError

if TYPE_CHECKING:
    from jaxtyping import Array

RESTART_PROBABILITY = 0.03
TRAJECTORY_STEPS = 100
"""Steps of a logged trajectory in the paper, at which `gymnasium.make` truncates."""


class InfiniteReacher(Restart):
    """Reacher as an infinite-horizon Markov decision process.

    Parameters
    ----------
    restart_probability
        Probability in [0, 1) of a new start at each step.
    render_mode
        None, "human", "rgb_array", "depth_array" or "rgbd_tuple".

    Raises
    ------
    EnvironmentSpecError
        If MuJoCo is not installed, or the probability is outside [0, 1).

    Notes
    -----
    Gymnasium's Reacher-v5: ten observations (cosines and sines of the two angles, the target's
    place, angular velocities, and the vector from the target to the fingertip) and two torques,
    clipped to [-1, 1] before they act and before their square is charged. The reward of a step is
    minus the distance to the target (m) minus the squared torques. Yang, Dai, Nachum, Tucker,
    Schuurmans, "Offline Policy Selection under Uncertainty", appendix C.1.
    """

    metadata = {  # noqa: RUF012 (Gymnasium's own convention)
        "render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"],
        "render_fps": 50,
    }

    def __init__(
        self,
        *,
        restart_probability: float = RESTART_PROBABILITY,
        render_mode: str | None = None,
    ) -> None:
        check_share("restart_probability", restart_probability, below_one=True)
        RecordConstructorArgs.__init__(
            self, restart_probability=restart_probability, render_mode=render_mode
        )
        super().__init__(_reacher(render_mode), probability=restart_probability)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply torques, and start anew with the probability of a restart.

        Parameters
        ----------
        action
            Two torques, clipped to [-1, 1].

        Returns
        -------
        tuple
            Next observation, reward, False, False, info.
        """
        # A Gaussian policy may draw actions beyond the bounds. They are clipped here and not in the
        # policy, so that the logged action is the one that was drawn, whose density is known.
        bounds: Any = self.action_space
        return super().step(np.clip(action, bounds.low, bounds.high))


def _reacher(render_mode: str | None) -> Any:
    try:
        import mujoco  # noqa: F401 (Gymnasium's own message comes later, as another error)
    except ImportError as cause:
        raise EnvironmentSpecError(
            "InfiniteReacher needs MuJoCo: install it with pip install 'bayesdice-ppl[mujoco]'."
        ) from cause
    from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv

    return ReacherEnv(render_mode=render_mode)


@cache
def reacher_network() -> Network:
    """Weights of the deterministic policy that ships with the library (two layers of 64).

    Trained on Gymnasium's ordinary Reacher-v5; learning curve, mean return and versions stand
    beside it in `envs/reacher_policy`.
    """
    with files("bayesdice_ppl.envs").joinpath("reacher_policy/weights.npz").open("rb") as file:
        return load_network(file)


def reacher_action(observations: Float[Array, "batch 10"]) -> Float[Array, "batch 2"]:
    """Torques (batch, 2), in [-1, 1], of the deterministic policy in observations (batch, 10)."""
    return apply(reacher_network(), observations)
