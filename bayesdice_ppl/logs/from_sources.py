"""The ways into `Logs` from other tools: a thin classmethod for each reader in `sources/`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from bayesdice_ppl.errors import LogsError

if TYPE_CHECKING:
    from bayesdice_ppl.logs.sources.source import SourceTable


class FromSources:
    """Logs of other tools. Each reader's table goes through ``from_dataframe``, as any other does.

    What all of them take: ``columns`` (our name -> a column of the reader's table, to choose
    another), ``actions`` (the action space, where the tool's is not the right one) and ``ignore``,
    as for `Logs.from_dataframe`. What was taken as what, and what was left out, is in
    ``Logs.source``.
    """

    __slots__ = ()

    @classmethod
    def from_source(
        cls,
        table: SourceTable,
        *,
        columns: Mapping[str, str] | None = None,
        actions: Sequence[Any] | None = None,
        ignore: Sequence[str] = (),
        reward: str | Sequence[str] | None = None,
    ) -> Self:
        """Validate the table of a reader, and keep where it came from.

        Parameters
        ----------
        table
            What the reader made.
        columns, actions, ignore, reward
            As for `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            As `Logs.from_dataframe`, with the layout before it.
        """
        # Another column of actions has another space.
        other = isinstance(columns, Mapping) and "action" in columns
        space = table.actions if actions is None and not other else actions
        try:
            logs = cls.from_dataframe(  # type: ignore[attr-defined]
                table.chosen(columns), columns=columns, actions=space, ignore=ignore, reward=reward
            )
        except LogsError as error:
            row = re.search(r"\brow (\d+)", str(error))
            place = table.place_of(int(row[1])) if row else ""
            raise LogsError(f"{table.source.layout}: {error} {place}".rstrip()) from error
        return replace(logs, source=table.source.with_columns(columns))

    @classmethod
    def from_minari(cls, dataset: Any, *, observe: Any = None, **options: Any) -> Self:
        """Read a dataset of Minari: its object, its name, or the folder of a saved one.

        Parameters
        ----------
        dataset
            A ``MinariDataset``, a list of its episodes, or the name or folder of a saved dataset,
            which needs neither the package nor the environment.
        observe
            A function from an episode's observations, as Minari has them, to an array of one row
            each: for dicts and images.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            There is no such dataset, or an episode cannot be used: which, and why.
        """
        from bayesdice_ppl.logs.sources.minari import read_minari

        return cls.from_source(read_minari(dataset, observe=observe), **options)

    @classmethod
    def from_d3rlpy(cls, dataset: Any, **options: Any) -> Self:
        """Read a dataset of d3rlpy.

        Parameters
        ----------
        dataset
            A ``ReplayBuffer`` or ``MDPDataset``, a list of episodes, or a dict of the flat arrays
            that a dataset is made of.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            An episode cannot be used: which, and why.
        """
        from bayesdice_ppl.logs.sources.d3rlpy import read_d3rlpy

        return cls.from_source(read_d3rlpy(dataset), **options)

    @classmethod
    def from_sb3(cls, buffer: Any, **options: Any) -> Self:
        """Read a replay buffer of Stable-Baselines3.

        Parameters
        ----------
        buffer
            A ``ReplayBuffer``, such as ``model.replay_buffer``. Of a full one the episodes whose
            start was overwritten are left out.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            Another kind of buffer, or an empty one.
        """
        from bayesdice_ppl.logs.sources.stable_baselines3 import read_sb3

        return cls.from_source(read_sb3(buffer), **options)

    @classmethod
    def from_d4rl(cls, arrays: Any, **options: Any) -> Self:
        """Read flat arrays of many episodes, as ``env.get_dataset()`` of D4RL gives them.

        Parameters
        ----------
        arrays
            A dict with ``observations``, ``actions``, ``rewards``, ``terminals``, and perhaps
            ``timeouts`` and ``next_observations``; one row a step.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            An array is missing or cut off, or no episode ends.
        """
        from bayesdice_ppl.logs.sources.flat import read_flat

        return cls.from_source(read_flat(arrays), **options)

    @classmethod
    def from_obp(cls, feedback: Any, **options: Any) -> Self:
        """Read bandit feedback of the Open Bandit Pipeline (gamma = 0).

        Parameters
        ----------
        feedback
            The dict of ``obtain_batch_bandit_feedback``: ``context``, ``action``, ``reward``,
            ``pscore``, ``position``, ``pi_b``, ... States are the contexts as vectors, with the
            position where there are several; ``columns={"state": "position"}`` makes the position
            alone the state, as a label.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            An array is missing, cut off, or contradicts another.
        """
        from bayesdice_ppl.logs.sources.bandit_feedback import read_bandit_feedback

        return cls.from_source(read_bandit_feedback(feedback), **options)

    @classmethod
    def from_scope_rl(cls, dataset: Any, **options: Any) -> Self:
        """Read a logged dataset of SCOPE-RL.

        Parameters
        ----------
        dataset
            The dict of ``obtain_episodes`` of one behavior policy. A trajectory's last step counts
            as cut; ``columns={"terminated": "done"}`` says that the task ends there.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            An array is missing or cut off.
        """
        from bayesdice_ppl.logs.sources.scope_rl import read_scope_rl

        return cls.from_source(read_scope_rl(dataset), **options)

    @classmethod
    def from_vw(cls, decisions: Any, **options: Any) -> Self:
        """Read decisions of Vowpal Wabbit's contextual bandits in dsjson (gamma = 0).

        Parameters
        ----------
        decisions
            A path (plain or ``.gz``), several paths, lines of text, or dicts. A reward is a cost
            times -1. The state is the shared context, as text; ``columns={"state": "c.country"}``
            takes one entry of it, and ``{"action": "a.id"}`` one of the action's.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            A line cannot be read or contradicts itself: which, and why.
        """
        from bayesdice_ppl.logs.sources.vowpal_wabbit import read_vw

        return cls.from_source(read_vw(decisions), **options)

    @classmethod
    def from_rllib(cls, batches: Any, **options: Any) -> Self:
        """Read sample batches of RLlib.

        Parameters
        ----------
        batches
            A path of JSON lines (plain or ``.gz``), several paths, lines of text, or a batch or
            more as dicts of columns. Compressed columns hold pickles, which are never read.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            A batch is compressed, of several policies, or lacks a column.
        """
        from bayesdice_ppl.logs.sources.rllib import read_rllib

        return cls.from_source(read_rllib(batches), **options)

    @classmethod
    def from_hugging_face(cls, dataset: Any, **options: Any) -> Self:
        """Read a dataset of Hugging Face, or a table like it.

        Parameters
        ----------
        dataset
            One split, with a row for each step, or a row for each episode whose columns hold lists.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            Several splits, a stream, or lists of different lengths.
        """
        from bayesdice_ppl.logs.sources.hugging_face import read_hugging_face

        return cls.from_source(read_hugging_face(dataset), **options)

    @classmethod
    def from_rollout(
        cls,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminations: Any,
        truncations: Any,
        *,
        autoreset: str = "next_step",
        final_observations: Any = None,
        propensities: Any = None,
        **options: Any,
    ) -> Self:
        """Read what was collected from a vector of environments of Gymnasium: T steps of N.

        Parameters
        ----------
        observations
            What ``reset`` and then each ``step`` returned, shape (T + 1, N, ...).
        actions, rewards, terminations, truncations
            What each step took and returned, shape (T, N, ...).
        autoreset
            The vector's mode: ``next_step`` (Gymnasium's default; the rows that only reset are left
            out) or ``same_step``.
        final_observations
            For ``same_step``: the last observations of episodes, shape (T, N, ...).
        propensities
            Probabilities or densities of the actions, shape (T, N).
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            Another mode, or arrays of other shapes.
        """
        from bayesdice_ppl.logs.sources.rollouts import read_rollout

        table = read_rollout(
            observations,
            actions,
            rewards,
            terminations,
            truncations,
            autoreset=autoreset,
            final_observations=final_observations,
            propensities=propensities,
        )
        return cls.from_source(table, **options)

    @classmethod
    def from_episodes(cls, episodes: Any, **options: Any) -> Self:
        """Read episodes that are dicts of arrays.

        Parameters
        ----------
        episodes
            A list of dicts, or label -> dict, with ``observations`` (one a step, or one more, where
            the episode led), ``actions`` and ``rewards``, and perhaps ``terminated``,
            ``truncated``, ``next_observations`` and ``propensity``, in any usual spelling.
        **options
            ``columns``, ``actions``, ``ignore``: see `Logs.from_dataframe`.

        Raises
        ------
        LogsError
            An episode cannot be used: which, and why.
        """
        from bayesdice_ppl.logs.sources.episode_dicts import read_episodes

        return cls.from_source(read_episodes(episodes), **options)
