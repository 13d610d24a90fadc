"""Notebooks: scripts that tell a story, and the same with outputs; a pair must not drift apart."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "notebooks").glob("*.py"))
SAID = {
    "01_quickstart": "Try bts_sharp, anti_bts",
    "02_frozen_lake": "Go live: careful, bold at the start",
    "03_ratio": "by row is worse by",
    "04_trust": "They do not cover for everybody",
    "05_comparing": "lines is worse by",
    "06_scores": "regret@2 from an independent belief loses +",
    "07_your_own": "our guide",
    "08_continuous_control": "Try harder",
    "09_patients": "with patient_id: 90 % intervals of the gain held it in",
    "10_million_rows": "A hundred times as many rows make a value",
    "11_router": "Chosen: by kind. Truly best within the budget: by kind.",
    "12_exploration": "The last policy is within 0.0% of the best.",
}
"""What each notebook has to have found."""
MOST_BYTES = 500_000
FEWEST_FIGURES = 2


def cells_of(script: str) -> list[tuple[str, str]]:
    """Kind and text of each cell of a script in percent format; what is above the first is none."""
    _, *blocks = re.split(r"^# %%", script, flags=re.MULTILINE)
    cells = []
    for block in blocks:
        mark, _, body = block.partition("\n")
        body = body.strip("\n")
        if mark.strip() == "[markdown]":
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.split("\n"))
        cells.append(("markdown" if mark.strip() else "code", body))
    return cells


def test_cells_of_a_script():
    script = "# head\n\n# %%\nx = 1\n\n\n# %% [markdown]\n# # Title\n#\n# text\n\n# %%\n\ny = 2\n"
    assert cells_of(script) == [
        ("code", "x = 1"),
        ("markdown", "# Title\n\ntext"),
        ("code", "y = 2"),
    ]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_and_its_notebook_are_the_same(path):
    written = path.with_suffix(".ipynb")
    assert written.exists(), f"{written.name} is missing: run make notebooks."
    notebook = json.loads(written.read_text())
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert found == cells_of(path.read_text()), "They differ: run make notebooks."


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_holds_figures_and_nothing_of_a_machine(path):
    text = path.with_suffix(".ipynb").read_text()
    assert len(text.encode()) < MOST_BYTES
    notebook = json.loads(text)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(figures) >= FEWEST_FIGURES
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    assert {output["output_type"] for output in outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    written = json.dumps(
        [{**one, "data": {**one.get("data", {}), "image/png": ""}} for one in outputs]
    )
    # Paths of a machine, which begin with a slash or a drive, and addresses of objects.
    found = re.search(r"(?<![\w.:/<>-])(/[\w.-]+/|[A-Z]:\\+\w)[\w.-]*|\bat 0x[0-9a-f]+", written)
    assert found is None, found


def test_every_notebook_has_its_script():
    written = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert written == {path.stem for path in SCRIPTS}
    assert set(SAID) == written


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
# The kernel's own transport warns about its event loop and its sockets; the notebook's cells run in
# another process and fail on any exception.
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_from_top_to_bottom(path, tmp_path):
    pytest.importorskip("jupytext")
    pytest.importorskip("nbclient")
    place = ROOT / ".ci" / "notebooks.py"
    spec = importlib.util.spec_from_file_location("make_notebooks", place)
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    notebook = make.execute(path, tmp_path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= FEWEST_FIGURES
    assert any(SAID[path.stem] in str(output) for output in outputs)
