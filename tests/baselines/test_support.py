"""Impossible answers: values outside the rewards' range, lower ends above upper ends."""

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.baselines import Estimate
from bayesdice_ppl.baselines.interface import Estimator
from bayesdice_ppl.baselines.support import impossible_values
from bayesdice_ppl.errors import LogsError

POLICY = bd.TabularPolicy([[0.5, 0.5]])


@final
@dataclass(frozen=True)
class Says(Estimator):
    """A method that gives what it is told."""

    value: float
    lower: float | None = None
    upper: float | None = None
    draws: np.ndarray | None = None

    name = "says"
    gives = "draws"

    def answer(self, query, level):
        return Estimate(self.value, self.lower, self.upper, self.draws)


def log(low, high, terminated=False):
    rewards = np.linspace(low, high, 40)
    return bd.Logs.from_dataframe(
        pl.DataFrame(
            {
                "episode_id": np.arange(40) // 2,
                "step": np.arange(40) % 2,
                "state": 0,
                "action": np.arange(40) % 3 % 2,
                "reward": rewards,
                "next_state": 0,
                "terminated": terminated & (np.arange(40) % 2 == 1),
            }
        )
    )


@pytest.mark.parametrize(
    ("value", "told", "abstains"),
    [
        (0.0, False, False),
        (1.005, False, False),
        (1.5, True, False),
        (2.5, True, True),
        (-0.5, True, False),
        (-1.5, True, True),
    ],
)
def test_a_value_outside_of_the_rewards_is_told(value, told, abstains):
    found = bd.baselines.estimate_all(Says(value), log(0.0, 1.0), {"p": POLICY}, gamma=0.5)
    warnings = impossible_values(found)
    assert len(warnings) == told
    assert any(warning.abstain for warning in warnings) == abstains
    if told:
        assert "rewards' range, 0 to 1" in warnings[0].reason
        assert any("rewards' range" in text for text in found.support_warnings)


def test_draws_carry_it_into_their_belief():
    draws = np.linspace(2.4, 2.6, 50)
    method = Says(2.5, 2.4, 2.6, draws)
    two = {"p": POLICY, "q": bd.TabularPolicy([[0.1, 0.9]])}
    found = bd.baselines.estimate_all(method, log(0.0, 1.0), two, gamma=0.5)
    choice = bd.select(found.belief(), bd.scores.regret(k=1))
    assert not choice.recommended
    assert sum("rewards' range, 0 to 1" in reason for reason in choice.reasons) == 2


def test_absorbed_episodes_earn_nothing_and_so_0_belongs_to_the_range():
    logs = log(1.0, 2.0, terminated=True)
    for on_termination, told in (("restart", 1), ("absorb", 0)):
        found = bd.baselines.estimate_all(
            Says(0.3), logs, {"p": POLICY}, gamma=0.5, on_termination=on_termination
        )
        assert len(impossible_values(found)) == told


def test_equal_rewards_leave_nothing_but_rounding():
    for value, told in ((0.3, 0), (0.3 - 1e-15, 0), (0.2999, 1)):
        found = bd.baselines.estimate_all(Says(value), log(0.3, 0.3), {"p": POLICY}, gamma=0.5)
        assert len(impossible_values(found)) == told


def test_a_lower_end_above_the_upper_is_an_error_that_names_the_policy():
    with pytest.raises(LogsError, match=r"policy 'p': .* says, found its lower end, 0\.4, above"):
        bd.baselines.estimate_all(Says(0.2, 0.4, 0.1), log(0.0, 1.0), {"p": POLICY}, gamma=0.5)
