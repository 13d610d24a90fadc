"""Datasets of Minari: objects, names, and saved ones, which need neither Minari nor an environment.

An episode of T steps has T + 1 observations. The last one says where the episode led, so that one
that was only cut keeps its next observation. Saved datasets are folders of HDF5 or Arrow files with
the spaces in ``metadata.json``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bayesdice_ppl.checks import listed
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.sources.arrays import read_count
from bayesdice_ppl.logs.sources.episodes import EpisodeArrays, episode_table
from bayesdice_ppl.logs.sources.hdf5 import open_hdf5, read_array
from bayesdice_ppl.logs.sources.source import SourceTable

LAYOUT = "Minari"
_METADATA = "metadata.json"
_MAIN_FILE = "main_data.hdf5"
_FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")
_TAKEN = {
    "observations": "observations",
    "actions": "actions",
    "rewards": "rewards",
    "terminated": "terminations",
    "truncated": "truncations",
}
_ADVICE = ", e.g. with observe=lambda seen: seen['observation']"


def read_minari(dataset: Any, *, observe: Any = None) -> SourceTable:
    """Read a dataset of Minari.

    Parameters
    ----------
    dataset
        A ``MinariDataset`` (anything with ``iterate_episodes``), a list of its episodes, the folder
        of a saved dataset, or the name of one in Minari's folder.
    observe
        A function from the observations of an episode, as Minari has them, to an array of one row
        each: for dicts and images.

    Raises
    ------
    LogsError
        There is no such dataset, or an episode cannot be read.
    """
    if isinstance(dataset, str | os.PathLike):
        return read_saved(find_saved(dataset), observe=observe)
    space = getattr(dataset, "action_space", None)
    if hasattr(dataset, "iterate_episodes"):
        episodes = dataset.iterate_episodes()
    elif isinstance(dataset, Iterable) and not isinstance(dataset, Mapping):
        episodes = dataset
    else:
        raise LogsError(
            f"{LAYOUT}: expected a dataset, a list of its episodes, a folder or a name, found "
            f"{type(dataset).__name__}."
        )
    return _table(
        ((k, _fields_of(one, k)) for k, one in enumerate(episodes)), _actions_of(space), observe
    )


def _actions_of(space: Any) -> list[int] | None:
    """All actions of a discrete space of Gymnasium."""
    size, start = getattr(space, "n", None), getattr(space, "start", 0)
    if not isinstance(size, int | np.integer):
        return None
    return [int(start) + k for k in range(int(size))]


def _fields_of(one: Any, k: int) -> dict[str, Any]:
    missing = [name for name in _FIELDS if not hasattr(one, name)]
    if missing:
        raise LogsError(
            f"{LAYOUT}, episode {k}: expected an episode with {', '.join(_FIELDS)}, found "
            f"{type(one).__name__} without {listed(missing)}."
        )
    return {"id": getattr(one, "id", k), **{name: getattr(one, name) for name in _FIELDS}}


def _table(
    episodes: Iterable[tuple[int, Mapping[str, Any]]], actions: list[int] | None, observe: Any
) -> SourceTable:
    def made() -> Iterator[EpisodeArrays]:
        for k, one in episodes:
            label = one.get("id", k)
            label = k if label is None else read_count(label, f"{LAYOUT}, episode {k}", "id")
            seen = one["observations"]
            yield EpisodeArrays(
                where=f"episode {label}",
                label=label,
                observations=seen if observe is None else _observed(observe, seen, label),
                actions=one["actions"],
                rewards=one["rewards"],
                terminated=one["terminations"],
                truncated=one["truncations"],
            )

    return episode_table(made(), LAYOUT, _TAKEN, actions=actions, advice=_ADVICE)


def _observed(observe: Any, seen: Any, label: int) -> Any:
    if not callable(observe):
        raise LogsError(
            f"observe: expected a function of an episode's observations, found "
            f"{type(observe).__name__}."
        )
    try:
        return observe(seen)
    except Exception as cause:
        raise LogsError(
            f"{LAYOUT}, episode {label}: the function observe= raised {type(cause).__name__}: "
            f"{cause}."
        ) from cause


def find_saved(name: str | os.PathLike[str]) -> Path:
    """The folder with the data of a saved dataset, from its path or its name.

    Raises
    ------
    LogsError
        There is none.
    """
    root = Path(os.environ.get("MINARI_DATASETS_PATH", Path.home() / ".minari" / "datasets"))
    places = [Path(name).expanduser(), root / Path(name)]
    for place in places:
        for folder in (place, place / "data"):
            if (folder / _METADATA).is_file():
                return folder
    raise LogsError(
        f"{LAYOUT}: expected a dataset with a file data/{_METADATA}, found none in "
        f"{' or '.join(dict.fromkeys(map(str, places)))}. Give the folder of a saved dataset, or "
        f"download it first (minari download {name})."
    )


def read_saved(folder: Path, *, observe: Any = None) -> SourceTable:
    """Read the folder of a saved dataset; see `read_minari`.

    Raises
    ------
    LogsError
        A file is missing, damaged, or holds fewer episodes than the dataset says.
    """
    try:
        metadata = json.loads((folder / _METADATA).read_text(encoding="utf-8"))
        kind = metadata.get("data_format", "hdf5")
        spaces = {key: _space(metadata.get(key)) for key in ("observation_space", "action_space")}
        total = int(metadata["total_episodes"])
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as cause:
        raise LogsError(
            f"{folder / _METADATA}: expected the metadata of a Minari dataset, cannot be read: "
            f"{type(cause).__name__}: {cause}."
        ) from cause
    readers = {"hdf5": _hdf5_episodes, "arrow": _arrow_episodes}
    if kind not in readers:
        raise LogsError(f"{folder}: expected data as hdf5 or arrow, found {kind!r}.")
    _refuse_unreadable(spaces, observe)
    episodes = readers[kind](folder, total, spaces)
    space = spaces["action_space"]
    actions = None
    if space.get("type") == "Discrete":
        start = int(space.get("start", 0))
        actions = list(range(start, start + int(space["n"])))
    return _table(episodes, actions, observe)


def _space(text: Any) -> dict[str, Any]:
    """A space as Minari serializes it: JSON with a type."""
    if text is None:
        return {}
    space = json.loads(text) if isinstance(text, str) else text
    if not isinstance(space, dict):
        raise ValueError(f"expected a space, found {text!r}")
    return space


def _refuse_unreadable(spaces: Mapping[str, Mapping[str, Any]], observe: Any) -> None:
    """Refuse observations of many axes, which Arrow's files hold as plain lists."""
    for key, space in spaces.items():
        shape = space.get("shape") or ()
        if len(shape) > 1 and not (key == "observation_space" and observe is not None):
            sizes = " x ".join(str(size) for size in shape)
            raise LogsError(
                f"{LAYOUT}: expected {key.removesuffix('_space')}s that are labels or vectors, "
                f"found arrays of {sizes}, such as images. Reduce each to a vector{_ADVICE}."
            )


def _hdf5_episodes(
    folder: Path, total: int, spaces: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_hdf5(folder / _MAIN_FILE, LAYOUT) as file:
        _check_total(sum(name.startswith("episode_") for name in file), total, folder)
        for k in range(total):
            group = file.get(f"episode_{k}")
            if group is None:
                raise LogsError(f"{folder / _MAIN_FILE}: expected episode_{k}, found none.")
            missing = [name for name in _FIELDS if name not in group]
            if missing:
                raise LogsError(
                    f"{folder / _MAIN_FILE}, episode {k}: expected {', '.join(_FIELDS)}, found no "
                    f"{listed(missing)}."
                )
            yield k, {name: read_array(group[name], LAYOUT) for name in _FIELDS}


def _arrow_episodes(
    folder: Path, total: int, spaces: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    held = [one for one in folder.iterdir() if one.is_dir() and one.name.isdigit()]
    _check_total(len(held), total, folder)
    for k in range(total):
        files = sorted((folder / str(k)).glob("*.arrow"))
        if not files:
            raise LogsError(
                f"{folder}: expected {total:,} episodes, found no file of episode {k}. Save or "
                "download the dataset again."
            )
        try:
            parts = [pa.ipc.open_file(str(file)).read_all() for file in files]
            table = pa.concat_tables(parts)
            # All columns have the row of the last observation; that of actions is filling.
            yield (
                k,
                {
                    "observations": _arrow_array(
                        table["observations"], spaces["observation_space"]
                    ),
                    "actions": _arrow_array(table["actions"][:-1], spaces["action_space"]),
                    **{name: _arrow_array(table[name][:-1], {}) for name in _FIELDS[2:]},
                },
            )
        except (pa.ArrowException, OSError, KeyError, ValueError) as cause:
            raise LogsError(
                f"{files[0]}: cannot be read as an episode of Minari: "
                f"{(str(cause).strip() or type(cause).__name__).splitlines()[0]}"
            ) from cause


def _check_total(found: int, total: int, folder: Path) -> None:
    """Refuse more or fewer episodes than the metadata says."""
    if found != total:
        raise LogsError(
            f"{folder}: expected {total:,} episodes, as {_METADATA} says, found {found:,}. Save or "
            "download the dataset again."
        )


def _arrow_array(column: pa.ChunkedArray, space: Mapping[str, Any]) -> Any:
    """A column as an array; structs as dicts, which are refused later with their fields."""
    whole = column.combine_chunks()
    if pa.types.is_struct(whole.type):
        inner = space.get("subspaces") or {}
        parts = {field.name: pa.chunked_array([whole.field(field.name)]) for field in whole.type}
        below = inner if isinstance(inner, Mapping) else {str(k): v for k, v in enumerate(inner)}
        return {name: _arrow_array(part, below.get(name, {})) for name, part in parts.items()}
    if pa.types.is_fixed_size_list(whole.type):
        shape = tuple(space.get("shape") or ())
        numbers = whole.flatten().to_numpy(zero_copy_only=False).reshape(len(whole), -1)
        return numbers.reshape(len(whole), *shape) if len(shape) > 1 else numbers
    if pa.types.is_string(whole.type):
        return np.array(whole.to_pylist())
    return whole.to_numpy(zero_copy_only=False)
