"""Imports point one way: every module has a rank, and none imports a later one.

The syntax tree of every module is read, so that imports inside functions count too. Imports for
type checkers alone (`if TYPE_CHECKING:`) follow the same order; they may make circles within a
folder, since nothing runs through them.
"""

import ast
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parent.parent
LIBRARY = "bayesdice_ppl"
FOLDERS = {"bayesdice_ppl": LIBRARY, "models": f"{LIBRARY}.models", "envs": f"{LIBRARY}.envs"}

LEVELS = (
    ("plain", "digits"),
    ("errors", "_version", "progress"),
    ("arrays", "checks", "codes"),
    ("choices", "keys", "outputs"),
    ("logs",),
    ("policies",),
    ("envs", "features"),
    ("moments",),
    ("statistics", "constraint"),
    ("models",),
    ("inference",),
    ("belief",),
    ("fitting",),
    ("diagnostics", "checking", "comparison", "groups"),
    ("risk",),
    ("scores",),
    ("selection",),
    ("baselines",),
    ("simulation",),
    ("calibration",),
    ("datasets", "plots"),
    ("reporting",),
    ("experiments", "exploration"),
    ("cli",),
    ("__main__", LIBRARY),
)
"""Modules and folders from the first to the last; those of one line know nothing of each other."""

ONLY = {"envs": {"envs", "errors", "checks", "policies"}}
"""Modules and folders that may import nothing but these, whatever the order allows."""


def modules_of(root, folders):
    """Dotted name -> file of every module."""
    found = {}
    for folder, package in folders.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((package, *parts))] = path
    return found


def arrows_of(modules):
    """(importer, imported) of all imports, and of those for type checkers alone."""
    runtime, typing = set(), set()
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for statement in node.body
            for inner in ast.walk(statement)
        }
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        for node in ast.walk(tree):
            for target in targets_of(node, package, modules):
                (typing if id(node) in guarded else runtime).add((name, target))
    return runtime, typing - runtime


def targets_of(node, package, modules):
    """Modules of the library that one statement or call imports."""
    if isinstance(node, ast.Import):
        wanted = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        names = [f"{base}.{alias.name}" for alias in node.names]
        wanted = [name if name in modules else base for name in names]
    elif (
        isinstance(node, ast.Call)
        and "import_module" in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ):
        wanted = [str(node.args[0].value)]
    else:
        return []
    return [name for name in wanted if name.split(".")[0] == LIBRARY]


def place_of(module, levels):
    """(rank, entry) of a module: that of the longest entry that it belongs to, or None."""
    ranks = {entry: rank for rank, entries in enumerate(levels) for entry in entries}
    parts = module.removeprefix(f"{LIBRARY}.").split(".")
    for end in range(len(parts), 0, -1):
        entry = ".".join(parts[:end])
        if entry in ranks:
            return ranks[entry], entry
    return None


def find_unknown(modules, levels):
    """Modules without a rank."""
    return sorted(module for module in modules if place_of(module, levels) is None)


def find_stale(modules, levels):
    """Entries of the table to which no module belongs."""
    used = {place[1] for module in modules if (place := place_of(module, levels))}
    return sorted({entry for entries in levels for entry in entries} - used)


def find_upward(arrows, levels):
    """Entries that import a later one, or one of their own line."""
    found = set()
    for importer, imported in arrows:
        here, there = place_of(importer, levels), place_of(imported, levels)
        if here and there and here[1] != there[1] and there[0] >= here[0]:
            found.add((here[1], there[1]))
    return found


def find_circles(arrows):
    """Groups of modules that can all be reached from each other."""
    names = sorted({name for arrow in arrows for name in arrow})
    number = {name: place for place, name in enumerate(names)}
    ends = np.array([(number[a], number[b]) for a, b in arrows if a != b], dtype=int)
    graph = coo_array((np.ones(len(ends)), ends.reshape(-1, 2).T), shape=(len(names),) * 2)
    _, group_of = connected_components(graph, connection="strong")
    groups = defaultdict(list)
    for name, group in zip(names, group_of, strict=True):
        groups[group].append(name.removeprefix(f"{LIBRARY}."))
    return {tuple(group) for group in groups.values() if len(group) > 1}


def find_doubles(modules):
    """Names that more than one module gives to a public class."""
    homes = defaultdict(set)
    for name, path in modules.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(name)
    return {name for name, where in homes.items() if len(where) > 1}


@pytest.fixture(scope="module")
def modules():
    return modules_of(ROOT, FOLDERS)


@pytest.fixture(scope="module")
def arrows(modules):
    return arrows_of(modules)


def test_every_module_has_a_rank(modules):
    assert find_unknown(modules, LEVELS) == []


def test_every_rank_has_a_module(modules):
    assert find_stale(modules, LEVELS) == []


def test_no_module_imports_a_later_one(arrows):
    assert find_upward(arrows[0], LEVELS) == set()


def test_type_checkers_see_no_later_module_either(arrows):
    assert find_upward(arrows[1], LEVELS) == set()


def test_no_modules_import_each_other(arrows):
    assert find_circles(arrows[0]) == set()


def test_no_two_public_classes_have_one_name(modules):
    assert find_doubles(modules) == set()


@pytest.mark.parametrize("entry", ONLY)
def test_what_stands_alone_imports_nothing_else(entry, arrows):
    found = {
        place_of(imported, LEVELS)[1]
        for importer, imported in arrows[0]
        if place_of(importer, LEVELS)[1] == entry
    }
    assert found <= ONLY[entry]


def test_no_file_is_over_600_lines(modules):
    long = [str(path) for path in modules.values() if len(path.read_text().splitlines()) > 600]
    assert long == []


# The same rules on made-up trees, one for each way to break them.

TREE = {
    "bayesdice_ppl/__init__.py": "from bayesdice_ppl._version import __version__",
    "bayesdice_ppl/_version.py": "__version__ = '1'",
    "bayesdice_ppl/logs/__init__.py": "from bayesdice_ppl.logs.reading import read",
    "bayesdice_ppl/logs/reading.py": "class Log: ...\ndef read(): ...",
    "bayesdice_ppl/fitting.py": "from bayesdice_ppl import logs\nimport bayesdice_ppl.models",
    "models/__init__.py": "",
    "models/linear.py": "from bayesdice_ppl.logs import read\nclass Linear: ...",
    "envs/__init__.py": "",
}
RANKS = (("_version",), ("logs",), ("envs", "models"), ("fitting",), (LIBRARY,))


@pytest.fixture
def made_up(tmp_path):
    """Write the small tree, with other files, and read it."""

    def write(**changed):
        for name, text in (TREE | changed).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        modules = modules_of(tmp_path, FOLDERS)
        return modules, *arrows_of(modules)

    return write


def test_a_tree_in_order_has_no_faults(made_up):
    modules, runtime, typing = made_up()
    assert sorted(modules) == [
        "bayesdice_ppl",
        "bayesdice_ppl._version",
        "bayesdice_ppl.envs",
        "bayesdice_ppl.fitting",
        "bayesdice_ppl.logs",
        "bayesdice_ppl.logs.reading",
        "bayesdice_ppl.models",
        "bayesdice_ppl.models.linear",
    ]
    assert runtime == {
        ("bayesdice_ppl", "bayesdice_ppl._version"),
        ("bayesdice_ppl.logs", "bayesdice_ppl.logs.reading"),
        ("bayesdice_ppl.fitting", "bayesdice_ppl.logs"),
        ("bayesdice_ppl.fitting", "bayesdice_ppl.models"),
        ("bayesdice_ppl.models.linear", "bayesdice_ppl.logs"),
    }
    assert typing == set()
    assert find_unknown(modules, RANKS) == find_stale(modules, RANKS) == []
    assert find_upward(runtime, RANKS) == find_circles(runtime) == find_doubles(modules) == set()


def test_a_module_without_a_rank_is_found(made_up):
    modules, *_ = made_up(**{"bayesdice_ppl/plots/forest.py": "", "bayesdice_ppl/plots.py": ""})
    assert find_unknown(modules, RANKS) == ["bayesdice_ppl.plots", "bayesdice_ppl.plots.forest"]


def test_a_rank_without_a_module_is_found(made_up):
    modules, *_ = made_up()
    assert find_stale(modules, (*RANKS, ("plots",))) == ["plots"]


@pytest.mark.parametrize(
    "statement",
    [
        "from bayesdice_ppl.fitting import fit",
        "from bayesdice_ppl import fitting",
        "import bayesdice_ppl.fitting",
        "from ..fitting import fit",
        "from .. import fitting",
        "def late():\n    from bayesdice_ppl.fitting import fit",
        "class Late:\n    def late(self):\n        import bayesdice_ppl.fitting as f",
        "import importlib\nimportlib.import_module('bayesdice_ppl.fitting')",
        "if True:\n    from bayesdice_ppl.fitting import fit",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\n"
        "else:\n    from bayesdice_ppl.fitting import fit",
    ],
)
def test_an_arrow_that_goes_up_is_found_wherever_it_starts(statement, made_up):
    _, runtime, _ = made_up(**{"bayesdice_ppl/logs/late.py": statement})
    assert find_upward(runtime, RANKS) == {("logs", "fitting")}


def test_an_arrow_between_entries_of_one_line_is_found(made_up):
    _, runtime, _ = made_up(**{"models/late.py": "from bayesdice_ppl.envs import world"})
    assert find_upward(runtime, RANKS) == {("models", "envs")}


def test_an_arrow_to_the_public_face_is_found(made_up):
    _, runtime, _ = made_up(**{"models/late.py": "import bayesdice_ppl as bd"})
    assert find_upward(runtime, RANKS) == {("models", LIBRARY)}


def test_a_longer_entry_of_the_table_goes_before_a_shorter_one(made_up):
    _, runtime, _ = made_up(**{"bayesdice_ppl/logs/late.py": "import bayesdice_ppl.fitting"})
    ranks = (*RANKS[:-1], ("logs.late",), RANKS[-1])
    assert find_upward(runtime, ranks) == set()
    assert place_of("bayesdice_ppl.logs.late", ranks) == (4, "logs.late")
    assert place_of("bayesdice_ppl.logs.reading", ranks) == (1, "logs")


def test_imports_for_type_checkers_are_kept_apart(made_up):
    guarded = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import bayesdice_ppl.fitting"
    )
    _, runtime, typing = made_up(**{"bayesdice_ppl/logs/late.py": guarded})
    assert find_upward(runtime, RANKS) == set()
    assert find_upward(typing, RANKS) == {("logs", "fitting")}


def test_a_circle_within_a_folder_is_found(made_up):
    _, runtime, _ = made_up(
        **{
            "bayesdice_ppl/logs/reading.py": "def read():\n    import bayesdice_ppl.logs.table",
            "bayesdice_ppl/logs/table.py": "from bayesdice_ppl.logs.rows import rows",
            "bayesdice_ppl/logs/rows.py": "from bayesdice_ppl.logs.reading import read",
        }
    )
    assert find_circles(runtime) == {("logs.reading", "logs.rows", "logs.table")}


def test_a_module_that_imports_its_own_folder_is_a_circle(made_up):
    _, runtime, _ = made_up(**{"bayesdice_ppl/logs/reading.py": "from bayesdice_ppl.logs import x"})
    assert find_circles(runtime) == {("logs", "logs.reading")}


def test_two_public_classes_of_one_name_are_found(made_up):
    both = "class Log: ...\nclass _Linear: ..."
    modules, *_ = made_up(**{"bayesdice_ppl/fitting.py": both})
    assert find_doubles(modules) == {"Log"}
