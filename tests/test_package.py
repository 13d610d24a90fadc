import inspect
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bayesdice_ppl as bd

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path for folder in ("bayesdice_ppl", "models", "envs") for path in (ROOT / folder).rglob("*.py")
)


def seconds(*command):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


def test_import_is_quick_and_brings_in_nothing_heavy():
    assert seconds(sys.executable, "-c", "import bayesdice_ppl") < 1.5
    heavy = ("jax", "numpyro", "arviz", "matplotlib", "pandas", "gymnasium", "polars")
    code = (
        "import sys, json, bayesdice_ppl; "
        f"print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []


def test_help_is_quick():
    assert seconds(str(Path(sys.executable).with_name("bayesdice")), "--help") < 1.0


def test_import_leaves_jax_as_it_is():
    code = (
        "import jax; before = dict(jax.config.values); import bayesdice_ppl as bd; "
        "[getattr(bd, name) for name in bd.__all__]; assert before == dict(jax.config.values)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("name", [name for name in bd.__all__ if name != "__version__"])
def test_everything_public_has_a_docstring(name):
    thing = getattr(bd, name)
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        doc = inspect.getdoc(thing)
        assert "Parameters\n----------" in doc
        for parameter in inspect.signature(thing).parameters:
            assert re.search(rf"\b{parameter}\b", doc), f"{name} does not describe {parameter}"


def test_no_module_imports_a_later_one():
    order = [
        "errors",
        "logs",
        "policies",
        "features",
        "moments",
        "constraint",
        "models",
        "inference",
        "belief",
        "ties",
        "risk",
        "losses",
        "scores",
        "selection",
        "plots",
        "support",
        "preparation",
        "fitting",
        "diagnostics",
        "baselines",
        "simulation",
        "datasets",
        "experiments",
        "cli",
    ]
    found = []
    for path in SOURCES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        here = parts[1] if parts[0] == "bayesdice_ppl" else parts[0]
        if here not in order:
            continue
        for match in re.finditer(
            r"^from bayesdice_ppl\.(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            there = match.group(1)
            if there in order and order.index(there) > order.index(here):
                found.append(f"{path.relative_to(ROOT)} imports {there}")
    assert found == []


def test_worlds_import_nothing_of_the_library_but_policies():
    for path in (ROOT / "envs").glob("*.py"):
        for match in re.finditer(r"^\s*from bayesdice_ppl\.(\w+)", path.read_text(), re.MULTILINE):
            assert match.group(1) in ("envs", "policies", "errors", "checks"), path


def test_no_file_is_over_600_lines():
    long = [str(path) for path in SOURCES if len(path.read_text().splitlines()) > 600]
    assert long == []
