"""Fuzzing: mutated logs, candidates, beliefs and costs, and what the library makes of each.

Every file is read in process as the commands read it. Either it is refused, by one of our errors,
or what was read is held against a plain reader of the same bytes. Nothing else may happen: no other
exception, nothing on stderr, no file that takes long. Files run in processes of some hundreds, so
that one which brings down its process is found too. A hundred more go through the command.
"""

import argparse
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from bayesdice_ppl.errors import BayesDiceError
from bayesdice_ppl.plain import shortened
from benchmarks.tables import RESULTS, write_table

COMMAND = "python -m benchmarks fuzzing"
FILES, CHUNK, COMMANDS, SECONDS = 10_000, 500, 100, 20
KINDS = (
    "log.csv",
    "log.rows.csv",
    "log.jsonl",
    "log.parquet",
    "log.csv.gz",
    "table.csv",
    "table.parquet",
    "belief.nc",
    "costs.csv",
)
"""Kinds of files; each gets as many."""
TOKENS = (
    "", " ", "NaN", "nan", "inf", "-inf", "1e400", "1e-400", "1e308", "0x10", "1_000", "\u0661",
    "\u00b2", "1,5", "true", "TRUE", "yes", "None", "null", "-0", "00", "01", "1.0", "1e0", "-1",
    "2", "0.5", "0.3333", "9223372036854775808", "\x00", "\x1b[2J", "\u202e", "a" * 3000,
    "2024-01-01", "2024-01-01 10:00:00", "{}", "[1]", "'", "=1+1",
    "0", "1", "s0", "s1", "0.25", " 0.5", "0.5 ", "+1", "1E0", ".5", "5.", "1e-1", "-0.125",
)  # fmt: skip
NOTES = (
    f"{FILES:,} files in process, made by hypothesis from good ones: bytes changed, cut, inserted "
    "and repeated, and cells, columns and rows of tables exchanged. `refused` is by one of our "
    "errors, and "
    "`accepted` are those of which every row, label and number is what a plain reader finds in the "
    f"same bytes; a file that either took over {SECONDS} s, or raised anything else, or wrote to "
    "stderr, or brought down its process, or was read otherwise, is a `finding`. The last row went "
    "through the command, in processes of their own: its exit code is 0, 2 or 3, stderr has one "
    "sentence or nothing, and the output is whole or absent.",
)


class Base(NamedTuple):
    """Good files to start from, by kind."""

    content: dict[str, bytes]


def good_log() -> pl.DataFrame:
    """20 episodes of 4 steps."""
    rng = np.random.default_rng(0)
    n, steps = 80, 4
    last = np.arange(n) % steps == steps - 1
    state = rng.integers(0, 3, n)
    return pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(n // steps), steps),
            "step": np.tile(np.arange(steps), n // steps),
            "state": [f"s{k}" for k in state],
            "action": rng.integers(0, 2, n),
            "reward": np.round(rng.normal(size=n), 3),
            "next_state": [f"s{k}" for k in np.where(last, 0, np.r_[state[1:], 0])],
            "terminated": last,
            "propensity": np.full(n, 0.5),
        }
    )


def good_table() -> pl.DataFrame:
    """Two candidates."""
    rows = [
        {"policy": name, "state": f"s{s}", "action": a, "prob": p if a else 1.0 - p}
        for name, p in (("a", 0.25), ("b", 0.75))
        for s in range(3)
        for a in range(2)
    ]
    return pl.DataFrame(rows)


def make_base() -> Base:
    """Write the good files."""
    import gzip

    import jax

    import bayesdice_ppl as bd

    log, table = good_log(), good_table()
    with tempfile.TemporaryDirectory() as folder:
        belief = bd.fit(
            bd.Logs.from_dataframe(log),
            bd.Policies.from_dataframe(table),
            gamma=0.9,
            rng_key=jax.random.key(0),
            inference="exact",
            draws=50,
        )
        bd.save_belief(belief, Path(folder) / "belief.nc")
        log.write_parquet(Path(folder) / "log.parquet")
        table.write_parquet(Path(folder) / "table.parquet")
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    plain = log.write_csv().encode()
    return Base(
        {
            **files,
            "log.csv": plain,
            "log.rows.csv": log.select("state", "action", "reward", "propensity")
            .write_csv()
            .encode(),
            "log.csv.gz": gzip.compress(plain, mtime=0),
            "log.jsonl": log.write_ndjson().encode(),
            "table.csv": table.write_csv().encode(),
            "costs.csv": b"policy,cost\na,1.5\nb,2\n",
        }
    )


# What is done to a file.


_TEXT = st.text("0123456789.,\n\tes", min_size=1, max_size=4).map(str.encode)


@st.composite
def mutations(draw: Callable, kind: str) -> list[tuple]:
    """One to three changes of a file."""
    place = st.floats(0.0, 1.0, exclude_max=True)
    changes = [
        st.tuples(st.just("flip"), place, st.sampled_from((1, 2, 3, 16, 128, 255))),
        st.tuples(st.just("cut"), place, st.just(0)),
        st.tuples(st.just("remove"), place, st.integers(1, 64)),
        st.tuples(st.just("repeat"), place, st.integers(1, 64)),
        st.tuples(st.just("insert"), place, st.one_of(_TEXT, st.binary(min_size=1, max_size=8))),
        st.tuples(st.just("token"), place, st.sampled_from(TOKENS)),
    ]
    if kind.endswith(("csv", "jsonl")):
        column = st.integers(0, 7)
        changes += 6 * [
            st.tuples(st.just("cell"), place, st.tuples(column, st.sampled_from(TOKENS)))
        ]
        changes += [
            st.tuples(st.just("column"), place, st.sampled_from(("drop", "double", "rename"))),
            st.tuples(st.just("row"), place, st.sampled_from(("drop", "double", "move"))),
        ]
    one = st.one_of(changes)
    return draw(st.one_of(st.lists(one, min_size=1, max_size=1), st.lists(one, max_size=3)))


def mutate(content: bytes, changes: list[tuple], kind: str) -> bytes:
    """Change a file."""
    for what, place, how in changes:
        at = int(place * len(content))
        if what == "flip" and content:
            content = content[:at] + bytes([content[at] ^ how]) + content[at + 1 :]
        elif what == "cut":
            content = content[:at]
        elif what == "remove":
            content = content[:at] + content[at + how :]
        elif what == "repeat":
            content = content[:at] + content[at : at + how] + content[at:]
        elif what == "insert":
            content = content[:at] + how + content[at:]
        elif what == "token":
            content = content[:at] + how.encode() + content[at:]
        else:
            content = _change_table(content, what, place, how, kind)
    return content


def _change_table(content: bytes, what: str, place: float, how: object, kind: str) -> bytes:
    lines = content.decode("utf-8", errors="replace").split("\n")
    at = int(place * len(lines))
    if what == "row":
        if how == "drop":
            del lines[at]
        else:
            lines.insert(at if how == "double" else 0, lines[at])
        return "\n".join(lines).encode()
    if kind.endswith("jsonl"):
        try:
            row = json.loads(lines[at])
        except ValueError:
            return content
        names = list(row) if isinstance(row, dict) else []
        if what != "cell" or not names:
            return content
        column, token = how
        try:
            value = json.loads(token)
        except ValueError:
            value = token
        row[names[column % len(names)]] = value
        lines[at] = json.dumps(row)
        return "\n".join(lines).encode()
    if what == "cell":
        column, token = how
        cells = lines[at].split(",")
        cells[column % len(cells)] = token
        lines[at] = ",".join(cells)
        return "\n".join(lines).encode()
    header = lines[0].split(",")
    column = int(place * len(header))
    if how == "rename":
        header[column] = header[column].upper()
        return "\n".join([",".join(header), *lines[1:]]).encode()
    found = []
    for line in lines:
        cells = line.split(",")
        if line and column < len(cells):
            cells[column : column + 1] = [] if how == "drop" else 2 * [cells[column]]
        found.append(",".join(cells))
    return "\n".join(found).encode()


# What the library makes of it, and what a plain reader finds.


def read(path: Path, kind: str) -> object:
    """Read a file as the commands do."""
    import bayesdice_ppl as bd

    if kind.startswith("log"):
        bd.check(path, gamma=0.0)  # which reports, and raises only if nothing can be read
        return bd.read_logs(path)
    if kind.startswith("table"):
        return bd.read_policies(path)
    if kind == "costs.csv":
        from bayesdice_ppl.cli.texts import read_costs

        return read_costs(str(path))
    belief = bd.load_belief(path)
    choice = bd.select(belief, bd.scores.regret(k=1))
    str(choice), choice._repr_html_(), choice.to_dict()
    return belief


def disagreement(found: object, path: Path, kind: str) -> str:
    """Where what was read is not what the file says; empty where it is."""
    if kind == "belief.nc":
        return _belief_disagrees(found, path)
    rows = plain_rows(path, kind)
    if rows is None:
        return ""
    if kind.startswith("log"):
        return _log_disagrees(found, rows)
    if kind == "costs.csv":
        held = {row["policy"]: row["cost"] for row in rows}
        return "" if all(same(held[k], v) for k, v in found.items()) else "costs differ"
    for row in rows:
        policy = found[str(row["policy"])]
        s = [str(each) for each in policy.states.tolist()]
        a = [str(each) for each in policy.actions.tolist()]
        held = policy.probabilities[_place(s, row["state"]), _place(a, row["action"])]
        if abs(float(row["prob"]) - held) > 2e-3:
            return f"prob {row['prob']!r} was read as {held!r}"
    return ""


def plain_rows(path: Path, kind: str) -> list[dict] | None:
    """The rows of a table by a reader of the standard library; None where spelling is ambiguous."""
    if kind.endswith("parquet"):
        import pyarrow.parquet as pq

        return pq.ParquetFile(path).read().to_pylist()
    content = path.read_bytes()
    if kind.endswith("gz"):
        import gzip

        content = gzip.decompress(content)
    text = content.decode("utf-8-sig", errors="replace")
    if kind.endswith("jsonl"):
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    if '"' in text or "\r" in text or "\x00" in text:
        return None
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if len(rows[0]) < 2:
        return None  # another separator
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


def _log_disagrees(logs: object, rows: list[dict]) -> str:
    read = logs.to_dataframe().with_columns(row=logs.row).sort("row")
    if len(read) != len(rows):
        return f"{len(rows)} rows were read as {len(read)}"
    for key in ("episode_id", "state", "action", "reward", "terminated", "propensity"):
        if key not in read.columns or key not in rows[0]:
            continue
        for number, (row, value) in enumerate(zip(rows, read[key], strict=True), start=1):
            if not same(row.get(key), value):
                return f"row {number}, {key}: {row.get(key)!r} was read as {value!r}"
    for number, (row, value) in enumerate(zip(rows, read["next_state"], strict=True), start=1):
        given = row.get("next_state")
        if given not in (None, "") and not same(given, value):
            return f"row {number}, next_state: {given!r} was read as {value!r}"
    return ""


def same(given: object, value: object) -> bool:
    """Whether a cell says what was read, in whatever spelling."""
    if given == value or str(given) == str(value):
        return True
    if isinstance(value, bool):
        return str(given).strip().lower() in (
            ("true", "1", "1.0") if value else ("false", "0", "0.0")
        )
    try:
        return float(given) == float(value)
    except (TypeError, ValueError):
        return str(given).strip() == str(value).strip()


def _place(labels: list[str], label: object) -> int:
    return next(k for k, each in enumerate(labels) if same(label, each))


def _belief_disagrees(belief: object, path: Path) -> str:
    import h5py

    with h5py.File(path) as file:
        raw = np.asarray(file["posterior/value"])
        plain = not {"scale_factor", "add_offset"} & set(file["posterior/value"].attrs)
    held = belief["posterior/value"].values
    if plain and (raw.shape != held.shape or not np.array_equal(raw, held, equal_nan=True)):
        return "values are not those of the file"
    return ""


# One process with some of the files.


class Outcome(NamedTuple):
    """What came of a file."""

    kind: str
    result: str
    detail: str


@contextmanager
def _limited() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"took over {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_file(path: Path, kind: str) -> Outcome:
    """Read a file, and say what came of it."""
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read(path, kind)
            wrong = disagreement(found, path, kind)
    except BayesDiceError as error:
        words = shortened(str(error))
        clear = words.strip() and "Traceback" not in words and len(words) < 2000
        return Outcome(kind, "refused" if clear else "finding", "" if clear else words[:500])
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Outcome(kind, "finding", f"{type(error).__name__}: {str(error)[:300]}")
    return Outcome(kind, "finding" if wrong else "accepted", wrong)


def draw_changes(kind: str, count: int, number: int) -> list[list[tuple]]:
    """Draw what is done to some files of a kind, the same for the same number."""
    drawn: list[list[tuple]] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(changes=mutations(kind))
    def draw(changes: list[tuple]) -> None:
        drawn.append(changes)

    draw()
    return drawn


def run_chunk(base: Base, number: int, files: int, folder: Path) -> list[Outcome]:
    """Try some files, all kinds in turn."""
    outcomes: list[Outcome] = []
    for k, kind in enumerate(KINDS):
        count = files // len(KINDS) + (k < files % len(KINDS))
        for changes in draw_changes(kind, count, 1000 * number + k) if count else []:
            path = folder / kind
            path.write_bytes(mutate(base.content[kind], changes, kind))
            # What a crash leaves behind says which file it was.
            print(f"last: {kind} {changes!r}"[:500], file=sys.stdout, flush=True)
            size = _noise()
            outcome = try_file(path, kind)
            if _noise() > size:
                outcome = Outcome(kind, "finding", f"stderr; {outcome.result}; {outcome.detail}")
            if outcome.result == "finding":
                outcome = outcome._replace(detail=f"{outcome.detail} | {changes!r}")
            outcomes.append(outcome)
    return outcomes


def _noise() -> int:
    """Bytes on stderr, where it is a file."""
    sys.stderr.flush()
    return os.fstat(2).st_size


def _child(number: int, files: int) -> None:
    """Try files with stderr in a file, and print what came of them."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_chunk(make_base(), number, files, Path(folder))
    print(json.dumps(outcomes))


def run_files(files: int, chunk: int = CHUNK) -> list[Outcome]:
    """Try files in processes of their own."""
    outcomes: list[Outcome] = []
    for number, start in enumerate(range(0, files, chunk)):
        size = min(chunk, files - start)
        words = [sys.executable, "-m", "benchmarks.fuzzing", "--chunk", str(number), str(size)]
        with tempfile.TemporaryFile() as noise:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=noise, check=False)
            noise.seek(0)
            said = noise.read().decode(errors="replace")
        if done.returncode:
            last = done.stdout.decode(errors="replace").splitlines()[-1:]
            words = f"exit {done.returncode}, {last}: {said[-800:]}"
            outcomes.append(Outcome("process", "finding", words))
            continue
        outcomes += [Outcome(*each) for each in json.loads(done.stdout.splitlines()[-1])]
        print(f"{len(outcomes):,} files", Counter(o.result for o in outcomes), flush=True)
    return outcomes


# Some files through the command.


def run_commands(count: int) -> list[Outcome]:
    """Give mutated files to the command, in a process for each."""
    base, outcomes = make_base(), []
    kinds = ("log.csv", "log.jsonl", "log.parquet", "table.csv", "belief.nc")
    for number in range(count):
        kind = kinds[number % len(kinds)]
        changes = draw_changes(kind, 2, 10**6 + number)[-1]
        with tempfile.TemporaryDirectory() as name:
            outcomes.append(_try_command(Path(name), base, kind, changes))
    return outcomes


def _try_command(folder: Path, base: Base, kind: str, changes: list[tuple]) -> Outcome:
    files = {"log.csv": base.content["log.csv"], "table.csv": base.content["table.csv"]}
    files[kind] = mutate(base.content[kind], changes, kind)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    log = kind if kind.startswith("log") else "log.csv"
    if kind == "belief.nc":
        words, whole = ["rank", kind, "-o", "out.json"], {"out.json"}
    else:
        words = ["select", log, "-p", "table.csv", "--gamma", "0.9", "-o", "out", "--seed", "1"]
        words += ["--inference", "exact", "--draws", "50"]
        whole = {"belief.nc", "ranking.json", "forest.png"}
    command = [sys.executable, "-m", "bayesdice_ppl", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    written = {p.name for p in folder.iterdir()} - set(files)
    if kind != "belief.nc" and written == {"out"}:
        written = {p.name for p in (folder / "out").iterdir()}
    fine = done.returncode in (0, 2, 3)
    fine &= written == (set() if done.returncode == 2 else whole)
    fine &= "Traceback" not in done.stderr + done.stdout
    ours = ("Error: ",) if done.returncode == 2 else ("Fitting",)
    fine &= not done.stderr or done.stderr.startswith(ours)
    result = "refused" if done.returncode == 2 else "accepted"
    detail = (
        "" if fine else f"{done.returncode} {sorted(written)} {done.stderr[-500:]} | {changes!r}"
    )
    return Outcome("through the command", result if fine else "finding", detail)


def main(output: Path = RESULTS, files: int = FILES, commands: int = COMMANDS) -> None:
    """Try all files and write the table."""
    outcomes = run_files(files) + run_commands(commands)
    rows = []
    for kind in dict.fromkeys(each.kind for each in outcomes):
        count = Counter(each.result for each in outcomes if each.kind == kind)
        rows.append(
            {
                "kind": kind,
                "files": sum(count.values()),
                "refused": count["refused"],
                "accepted": count["accepted"],
                "findings": count["finding"],
            }
        )
    for each in outcomes:
        if each.result == "finding":
            print(each)
    print(write_table("fuzzing", rows, command=COMMAND, notes=NOTES, folder=output))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunk", nargs=2, type=int)
    given_ = parser.parse_args()
    _child(*given_.chunk)
