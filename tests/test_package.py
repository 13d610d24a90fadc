import inspect
import json
import re
import subprocess
import sys

import pytest

import bayesdice_ppl as bd


@pytest.mark.parametrize(
    "code", ["import bayesdice_ppl", "from bayesdice_ppl.cli import app; app(['--help'])"]
)
def test_start_up_brings_in_nothing_heavy(code):
    heavy = ("jax", "numpyro", "arviz", "matplotlib", "pandas", "gymnasium", "polars", "scipy")
    tell = (
        "import atexit, sys, json; "
        f"atexit.register(lambda: print(json.dumps([m for m in {heavy!r} if m in sys.modules]))); "
    )
    done = subprocess.run(
        [sys.executable, "-c", tell + code], check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


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
