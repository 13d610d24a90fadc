"""Policies of the best average reward, where little tells them from others."""

import numpy as np
import pytest

from bayesdice_ppl.exploration.spaces import plan


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_detour_that_pays_a_little_more_is_found(offset):
    # Staying pays 0.5; the detour 0.4 and 0.6002, which is 0.5001 a step.
    moves = np.zeros((2, 2, 2))
    moves[0, 0, 0] = moves[0, 1, 1] = moves[1, :, 0] = 1.0
    reward = np.array([[0.5, 0.4], [0.6002, 0.6002]]) + offset
    for gamma in (1.0 - 1e-7, 1.0):
        assert plan(moves, reward, gamma)[0] == 1
    reward[1] = 0.5998 + offset
    assert plan(moves, reward, 1.0 - 1e-7)[0] == 0
