"""The pages of the documentation, read as text: nothing here needs Sphinx."""

import ast
import doctest
import importlib
import inspect
import re
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

import bayesdice_ppl as bd

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "docs/**/*.rst", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
    if "_build" not in path.parts
)
MARKDOWN = [path for path in PAGES if path.suffix == ".md"]


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def text_of(path):
    return path.read_text(encoding="utf-8")


def without_code(text):
    """A page without its code blocks and code spans."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n)+", "", text)
    return re.sub(r"`[^`]*`", "", text)


# Toctrees


def toctrees(path):
    """The entries of each toctree of a page, as they stand there."""
    text = text_of(path)
    if path.suffix == ".md":
        blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    else:
        blocks = re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    for block in blocks:
        lines = [line.strip() for line in block.splitlines()]
        yield [line for line in lines if line and not line.startswith(":")]


def pages_of(entry, page):
    """The files that an entry of a toctree stands for."""
    target = re.sub(r".*<(.*)>$", r"\1", entry)
    start = ROOT if target.startswith("/") else page.parent
    place = (start / target.lstrip("/")).resolve()
    suffixes = (".md", ".rst", ".ipynb", ".py")
    found = {
        p.with_suffix("") for p in place.parent.glob(place.name + ".*") if p.suffix in suffixes
    }
    assert found, f"{name_of(page)}: no page {entry}"
    return {
        next(p for suffix in suffixes if (p := stem.with_suffix(suffix)).exists()) for stem in found
    }


def test_every_page_is_in_a_toctree():
    reached, ahead = set(), {DOCS / "index.md"}
    while ahead:
        page = ahead.pop()
        reached.add(page)
        if page.suffix in (".md", ".rst"):
            named = {p for entries in toctrees(page) for e in entries for p in pages_of(e, page)}
            ahead |= named - reached
    notebooks = {path.with_suffix("") for path in (ROOT / "notebooks").glob("*.py")}
    assert {name_of(path) for path in PAGES} <= {name_of(path) for path in reached}
    assert notebooks <= {path.with_suffix("") for path in reached}


# Links


def anchors(path):
    """What links can point at within a page: headings, as Git hosts name them, and ids."""
    text = text_of(path)
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain} | set(re.findall(r'id="([^"]+)"', text))


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_every_internal_link_and_image_is_there(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        if re.match(r"\w+:", target):
            continue
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        assert file.exists(), f"{name_of(page)}: {target} is not there"
        if anchor:
            assert anchor in anchors(file), f"{name_of(page)}: {target} has no such heading"


LIST = re.compile(r"(?:[+*-]|\d+[.)]) ")


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_no_line_of_a_paragraph_begins_like_a_list(page):
    """A formula that is broken before its plus sign is a list to whatever shows the page."""
    lines = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE).splitlines()
    for before, line in pairwise(lines):
        starts = LIST.match(line) and before.strip()
        assert not starts or LIST.match(before) or before[0] in " #", f"{name_of(page)}: {line}"


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_every_row_of_a_table_has_as_many_cells_as_its_header(page):
    """A cell is cut off at a bar, as in pi(a|s), in code too; in a table it is written as \\|."""
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        header, *rows = (len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines())
        for row, cells in zip(table.splitlines()[1:], rows, strict=True):
            assert cells == header, f"{name_of(page)}: {row}"


# Names


def look_up(dotted):
    thing = bd
    for part in dotted.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of
)
def test_every_name_of_ours_exists(page):
    for dotted in set(re.findall(r"(?<![\w./])bd(?:\.[A-Za-z_]\w*)+", text_of(page))):
        look_up(dotted)


COMING_FROM = text_of(DOCS / "coming_from.md")
SPANS = re.findall(r"`(bd\.[^`]+)`", COMING_FROM)
BLOCKS = re.findall(r"```python\n(.*?)```", COMING_FROM, re.DOTALL)


def calls(code):
    """Calls of ours, as (the function's dotted name, the call)."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("bd."):
            yield ast.unparse(node.func), node


def test_calls_for_those_who_come_from_elsewhere_have_our_arguments():
    for code in (*SPANS, *BLOCKS):
        for name, call in calls(code):
            signature = inspect.signature(look_up(name))
            for keyword in call.keywords:
                assert keyword.arg in signature.parameters, f"{code}: no {keyword.arg} of {name}"
            if name == "bd.baselines.make":
                bd.baselines.make(ast.literal_eval(call.args[0]))
            # `...` stands for the other arguments.
            elif not any(isinstance(a, ast.Constant) and a.value is ... for a in call.args):
                signature.bind(*call.args, **{k.arg: k.value for k in call.keywords})


def test_the_page_for_those_who_come_from_elsewhere_has_names_to_check():
    assert len(SPANS) > 60
    assert len(BLOCKS) == 4


# Reference


def test_the_reference_has_every_public_name():
    listed = []
    for page in (DOCS / "reference").glob("*.rst"):
        text = text_of(page)
        listed += re.findall(r"^\.\. public-module:: (\w+)$", text, re.MULTILINE)
        for block in re.findall(r"^\.\. public-names::\n((?:   .*\n|\n)+)", text, re.MULTILINE):
            listed += [name for name in block.split() if "." not in name]
    assert sorted([*listed, "__version__"]) == sorted(bd.__all__)


def test_everything_in_the_reference_says_what_it_is():
    for module in (
        thing for thing in map(bd.__getattr__, bd.__all__[:-1]) if inspect.ismodule(thing)
    ):
        assert module.__doc__
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                assert inspect.getdoc(thing), f"{module.__name__}.{name} has no docstring"


# Examples


def modules_with_examples():
    for folder in ("bayesdice_ppl", "models", "envs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ">>> " in text_of(path):
                place = PurePosixPath(name_of(path)).with_suffix("")
                inside = place if folder == "bayesdice_ppl" else "bayesdice_ppl" / place
                yield ".".join(inside.parts)


@pytest.mark.parametrize("module", list(modules_with_examples()))
def test_examples_in_docstrings_give_what_they_show(module):
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried
    assert not failed


@pytest.mark.slow
def test_the_first_example_runs(capsys):
    [block] = re.findall(r"```python\n(.*?)```", text_of(DOCS / "index.md"), re.DOTALL)
    held = {}
    exec(block, held)
    assert "Try bts_sharp, anti_bts" in capsys.readouterr().out
    assert held["figure"]


def test_the_example_of_a_check_runs(tmp_path, monkeypatch, capsys):
    import jax

    world = bd.simulation.make_world("garnet", n_states=4, n_actions=2)
    logs = bd.simulate(world.env, world.behavior, 30, 20, rng_key=jax.random.key(0))
    logs.to_dataframe().write_csv(tmp_path / "logs.csv")
    world.candidates.to_dataframe().write_csv(tmp_path / "candidates.csv")
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python\n(.*?)```", text_of(DOCS / "check.md"), re.DOTALL)
    held = {"bd": bd}
    exec(block, held)
    assert "600" in capsys.readouterr().out
    assert held["report"].exit_code() in (0, 3)
