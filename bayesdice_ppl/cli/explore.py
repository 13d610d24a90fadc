"""The command that explores a world: choose a policy, play it, learn, and again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from bayesdice_ppl.cli.app import app, draw_seed
from bayesdice_ppl.cli.console import make_console
from bayesdice_ppl.cli.groups import Seed
from bayesdice_ppl.cli.options import with_options
from bayesdice_ppl.cli.reproduce import INTERRUPTED
from bayesdice_ppl.errors import SettingsError

if TYPE_CHECKING:
    from bayesdice_ppl.exploration import Exploration, Explorer
    from bayesdice_ppl.features import FeatureChoice

_SHOWN = 10
EXPLORERS = ("bayesdice", "psrl", "rlsvi", "ucbvi", "q_learning")


@final
@dataclass(frozen=True, kw_only=True)
class ExploreOptions:
    """How to explore.

    Attributes
    ----------
    rounds
        Number of rounds; each plays one policy.
    steps
        Steps in each round.
    explorer
        One of: bayesdice, psrl, rlsvi, ucbvi, q_learning.
    optimism
        Of bayesdice: quantile, quantile(0.95) or variance(10), the multiple of the variance.
    engine
        Of bayesdice: planning, or variational for the paper's objective.
    features
        Of bayesdice and rlsvi: features of the state, one_hot, polynomial(2), fourier(50) or
        columns. Needed where states are vectors. Default: tables.
    gamma
        Discount in [0, 1]; 1 is the average reward, on tables. Default: the world's usual one, or
        0.99.
    rewards
        Lowest and highest reward that is possible, as low,high.
    on_termination
        What follows a termination: restart is a new episode, absorb (with --features) is reward 0
        forever.
    """

    rounds: Annotated[int, typer.Option("--rounds", min=1)] = 100
    steps: Annotated[int, typer.Option("--steps", min=1)] = 100
    explorer: str = "bayesdice"
    optimism: str = "quantile"
    engine: str = "planning"
    features: str | None = None
    gamma: float | None = None
    rewards: str = "0,1"
    on_termination: str = "restart"

    def make(self, low: float, high: float) -> Explorer:
        """Make the explorer."""
        from bayesdice_ppl import checks, exploration
        from bayesdice_ppl.choices import read_choice
        from bayesdice_ppl.models import pair_prior
        from bayesdice_ppl.models.optimism import quantile, variance

        name = checks.one_of("--explorer", self.explorer, EXPLORERS)
        seen = self._features()
        if name != "bayesdice":
            self._refuse_settings(name)
            given = {} if seen is None else {"features": seen}
            plain: Explorer = getattr(exploration, name)(**given)
            return plain
        choices: dict[str, Any] = {"quantile": quantile, "variance": variance}
        optimism = read_choice("--optimism", self.optimism, choices)
        engines: dict[str, Any] = {
            "planning": lambda: None,
            "variational": lambda: exploration.variational(pair_prior(low, high)),
        }
        engine = engines[checks.one_of("--engine", self.engine, engines)]()
        return exploration.bayesdice(optimism, engine, features=seen)

    def _features(self) -> FeatureChoice | None:
        """The features of the state, or None."""
        from bayesdice_ppl import features
        from bayesdice_ppl.choices import read_choice

        if self.features is None:
            return None
        choices: dict[str, Any] = {
            "one_hot": lambda: features.one_hot(of="state"),
            "polynomial": lambda degree: features.polynomial(_whole(degree), of="state"),
            "fourier": lambda n=50: features.fourier(_whole(n), of="state"),
            "columns": lambda waves=0: features.columns("state", waves=_whole(waves)),
        }
        found: FeatureChoice = read_choice("--features", self.features, choices)
        return found

    def _refuse_settings(self, name: str) -> None:
        """Refuse what an explorer does not have."""
        usual = ExploreOptions()
        asked = {"optimism": (), "engine": (), "features": ("rlsvi",)}
        for option, known in asked.items():
            value = getattr(self, option)
            if name not in known and value != getattr(usual, option):
                others = "bayesdice" + "".join(f" or {one}" for one in known)
                raise SettingsError(
                    f"--{option} {value}: expected --explorer {others}, found {name}. Leave it out."
                )


@app.command()
@with_options
def explore(
    environment: Annotated[
        str,
        typer.Argument(
            metavar="ENV",
            help="A world of `bayesdice simulate`, such as riverswim, or the name of a Gymnasium "
            "environment with discrete actions, such as FrozenLake-v1.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Folder. A run that was interrupted there goes on."),
    ],
    choices: ExploreOptions,
    seed: Seed = None,
) -> None:
    """Explore a world online. Writes the log, a table of rounds, the last policy and a figure."""
    import jax

    from bayesdice_ppl.exploration import explore as run
    from bayesdice_ppl.exploration.folder import known_seed
    from bayesdice_ppl.exploration.results import write_results
    from bayesdice_ppl.models import pair_prior

    os.environ.setdefault("MPLBACKEND", "Agg")
    console = make_console()
    low, high = _range(choices.rewards)
    explorer = choices.make(low, high)
    env, usual = _make(environment)
    kept = known_seed(output) if seed is None else None
    seed = draw_seed(seed) if kept is None else kept
    console.print(
        f"{environment}: {choices.rounds:,} rounds of {choices.steps:,} steps with "
        f"{explorer.name}, seed {seed}.",
        markup=False,
    )
    try:
        done = run(
            env,
            explorer,
            rounds=choices.rounds,
            steps=choices.steps,
            gamma=usual if choices.gamma is None else choices.gamma,
            rewards=pair_prior(low, high),
            rng_key=jax.random.key(seed),
            on_termination=choices.on_termination,
            folder=output,
            run={"environment": environment, "seed": seed, "engine": choices.engine},
        )
    except KeyboardInterrupt:
        console.print(
            f"\nInterrupted. The same command goes on with the run in {output}.",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    written = write_results(done, output)
    _show(done, absorb=choices.on_termination == "absorb")
    names = ", ".join(path.name for path in written)
    console.print(f"Wrote {names} to {output}.", markup=False, soft_wrap=True)


def _whole(number: float) -> Any:
    """A number as it was written; what is not whole is refused by who takes it."""
    return int(number) if float(number).is_integer() else number


def _range(text: str) -> tuple[float, float]:
    parts = text.split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise SettingsError(
            f"--rewards: expected the lowest and the highest reward, as 0,1, found {text!r}."
        ) from None
    return low, high


def _make(name: str) -> tuple[Any, float]:
    """The environment of a name, and its usual discount."""
    import gymnasium

    from bayesdice_ppl.simulation import make_world

    if "-v" not in name:
        try:
            world = make_world(name)
        except SettingsError as cause:
            raise SettingsError(
                f"{cause} Or give a name of Gymnasium with its version, such as CartPole-v1."
            ) from cause
        return world.env, world.gamma_hint
    try:
        return gymnasium.make(name), 0.99
    except (gymnasium.error.Error, ImportError) as cause:
        raise SettingsError(f"{name}: Gymnasium cannot make this environment: {cause}") from cause


def _show(done: Exploration, *, absorb: bool) -> None:
    """Print some of the rounds."""
    from rich.table import Table

    console = make_console()
    table = Table(box=None)
    titles = ("round", "earned", "ended", "believed", "sd", "true", "regret")
    for title in titles:
        table.add_column(title, justify="right")
    n = len(done.rounds)
    every = max(1, -(-n // _SHOWN))
    for row in done.rounds.to_dicts():
        if row["round"] % every and row["round"] != n:
            continue
        numbers = (row[key] for key in ("reward", "mean", "sd", "value"))
        earned, *said = ["" if number is None else f"{number:.4f}" for number in numbers]
        regret = "" if row["regret"] is None else f"{row['regret']:.1f}"
        table.add_row(str(row["round"]), earned, str(row["ended"]), *said, regret)
    console.print(table)
    if done.best is not None:
        console.print(f"The best policy earns {done.best:.4f} per step.", markup=False)
    else:
        console.print("The best policy is not known, so that there is no regret.", markup=False)
    paid = done.logs.reward
    if paid.min() == paid.max() and not absorb:
        console.print(
            f"Every step paid {paid[0]:g}, so that nothing told policies apart. If what counts is "
            "when an episode ends, give --features and --on-termination absorb.",
            markup=False,
            soft_wrap=True,
        )
