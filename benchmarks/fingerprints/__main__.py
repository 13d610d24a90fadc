"""Write the fingerprints of every case, or compare them."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.fingerprints.digest import TOLERANCES, Case, Verdict, compare_leaves, digest


def _chosen(only: str) -> dict[str, Case]:
    from benchmarks.fingerprints.cases import cases

    return {name: case for name, case in cases().items() if re.search(only, name)}


def _run(name: str, case: Case) -> dict[str, Any] | str:
    """Give the digest of a case, or the error that it ended with."""
    started = time.process_time()
    try:
        found = digest(case.run())
    except Exception as error:
        # One broken case must not hide the others.
        last = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    print(f"  {time.process_time() - started:5.1f} s  {name}", file=sys.stderr, flush=True)
    return found


def write(path: Path, only: str) -> int:
    """Run the cases and keep their digests; 1 where a case has failed."""
    kept, failed = {}, 0
    for name, case in _chosen(only).items():
        found = _run(name, case)
        if isinstance(found, str):
            print(f"{name}: {found}")
            failed = 1
        else:
            kept[name] = found
    lines = (
        f"{json.dumps(name)}: {json.dumps(kept[name], separators=(',', ':'))}" for name in kept
    )
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return failed


def compare(path: Path, only: str, ignore: str | None) -> int:
    """Run the cases and hold them against their fingerprints; 1 where one differs."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    verdicts = []
    for name, case in _chosen(only).items():
        found = _run(name, case)
        if name not in kept:
            verdict = Verdict(name, case.kind, 0.0, "", ("no fingerprint of this case",))
        elif isinstance(found, str):
            verdict = Verdict(name, case.kind, float("inf"), "", (found,))
        else:
            verdict = compare_leaves(name, case.kind, kept[name], found)
        if ignore:
            faults = tuple(one for one in verdict.faults if not re.search(ignore, f"{name} {one}"))
            verdict = verdict._replace(faults=faults)
        verdicts.append(verdict)
    print(f"{'case':44} {'kind':8} {'worst':>8}  where")
    for each in verdicts:
        mark = "OVER" if each.faults else "ok"
        print(f"{each.case:44} {each.kind:8} {each.worst:8.1e}  {mark:4} {each.where}")
        for fault in each.faults[:8]:
            print(f"      {fault}")
        if len(each.faults) > 8:
            print(f"      ... and {len(each.faults) - 8} more")
    for kind in TOLERANCES:
        own = [each for each in verdicts if each.kind == kind]
        if own:
            over = sum(bool(each.faults) for each in own)
            worst = max(each.worst for each in own)
            print(f"{kind}: {len(own)} cases, {over} over, worst relative difference {worst:.1e}")
    return int(any(each.faults for each in verdicts))


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fingerprints", description=__doc__)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="run the cases whose name matches this pattern")
    parser.add_argument("--ignore", help="pattern of 'case fault' that may differ")
    given = parser.parse_args()
    # A second thread adds in another order.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if given.action == "write":
        return write(given.file, given.only)
    return compare(given.file, given.only, given.ignore)


if __name__ == "__main__":
    sys.exit(main())
