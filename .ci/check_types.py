"""Build the wheel, install it elsewhere, import every module of it, and type-check it there.

`models` and `envs` stand at the top level of the repository and install under the library's
name; a type checker cannot see through that mapping, and an editable install cannot prove it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

IMPORT_ALL = """
import importlib, pathlib, pkgutil, sys
import bayesdice_ppl
home = pathlib.Path(sys.argv[1])
assert home in pathlib.Path(bayesdice_ppl.__file__).parents, bayesdice_ppl.__file__
names = sorted(m.name for m in pkgutil.walk_packages(bayesdice_ppl.__path__, "bayesdice_ppl."))
for name in names:
    if not name.endswith("__main__"):
        module = importlib.import_module(name)
        assert home in pathlib.Path(module.__file__).parents, module.__file__
assert {"bayesdice_ppl.models.linear", "bayesdice_ppl.envs.garnet"} <= set(names), names
for name in bayesdice_ppl.__all__:
    getattr(bayesdice_ppl, name)
logs, policies, *_ = bayesdice_ppl.datasets.open_bandit()
assert logs.n_transitions == 10_000 and len(policies) == 5
assert bayesdice_ppl.envs.reacher.reacher_network().weights[0].shape == (10, 64)
assert bayesdice_ppl.simulation.stored_value("reacher", 0.75, 0.99) is not None
draws = bayesdice_ppl.belief.make_belief(logs.reward[:6].reshape(3, 2), ["a", "b"])
page = bayesdice_ppl.report(draws, bayesdice_ppl.scores.regret(k=1))
assert page.html.startswith("<!DOCTYPE html>")
print(f"{len(names)} modules of the wheel import.")
"""


def run(*command: str, **options: object) -> None:
    """Run a command and stop with its exit code if it fails."""
    done = subprocess.run(command, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Build, install, import, check."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory() as scratch:
        dist, home, source = (Path(scratch) / name for name in ("dist", "site", "source"))
        # From a copy: a build folder in the tree would keep modules that are gone.
        skip = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "demo-output")
        shutil.copytree(ROOT, source, ignore=skip)
        offline = ("--no-deps", "--no-build-isolation")
        run(*pip, "wheel", *offline, "--wheel-dir", str(dist), str(source))
        (wheel,) = dist.glob("*.whl")
        run(*pip, "install", "--no-deps", "--target", str(home), str(wheel))
        environment = {**os.environ, "PYTHONPATH": str(home)}
        run(sys.executable, "-c", IMPORT_ALL, str(home), cwd=scratch, env=environment)
        run(
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            str(ROOT / "setup.cfg"),
            "--cache-dir",
            str(ROOT / ".mypy_cache"),
            "-p",
            "bayesdice_ppl",
            cwd=scratch,
            env={**environment, "MYPYPATH": str(home)},
        )


if __name__ == "__main__":
    main()
