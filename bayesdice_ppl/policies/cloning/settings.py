"""How the logging policy is cloned: the form of the clone, the folds, and how a network learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from bayesdice_ppl.checks import one_of, positive, whole

FORMS = ("auto", "linear", "network", "mixture")
"""Forms of a clone on vector states; "mixture" is for vector actions alone."""


@final
@dataclass(frozen=True)
class Clone:
    """Settings of `clone_policy`.

    Attributes
    ----------
    form
        ``"linear"``, ``"network"`` or ``"mixture"`` (of Gaussians, for vector actions), on vector
        states; ``"auto"`` takes the one with the better held-out likelihood. Label states are
        always counted.
    folds
        Groups of episodes. Each is held out once.
    width
        Units of each of the network's two hidden layers.
    steps
        Adam's steps, at most: training stops where the held-out likelihood no longer grows.
    batch
        Rows in each step.
    learning_rate
        Adam's.
    components
        Gaussians in a mixture.
    """

    form: str = "auto"
    folds: int = 5
    width: int = 64
    steps: int = 2_500
    batch: int = 256
    learning_rate: float = 5e-3
    components: int = 3

    def __post_init__(self) -> None:
        one_of("form", self.form, FORMS)
        whole("folds", self.folds, 2)
        whole("width", self.width)
        whole("steps", self.steps)
        whole("batch", self.batch)
        positive("learning_rate", self.learning_rate)
        whole("components", self.components, 2)
