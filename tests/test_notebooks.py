import os
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.py"))
SAID = {
    "01_quickstart": "Try alpha_1.00",
    "02_bayesian_workflow": "90 % intervals covered the truth in",
    "03_router": "Chosen: by kind. Truly best within the budget: by kind.",
    "04_exploration": "The last policy is within 0.0% of the best.",
}
"""What each notebook has to have found."""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# The kernel's own transport warns about its event loop and its sockets; the notebook's cells run in
# another process and fail on any exception.
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_from_top_to_bottom(path, tmp_path):
    jupytext = pytest.importorskip("jupytext")
    nbclient = pytest.importorskip("nbclient")
    notebook = jupytext.read(path)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    # Tests of the command, in this process, may have left it a backend without a display.
    client.execute(env={name: value for name, value in os.environ.items() if name != "MPLBACKEND"})
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any(SAID[path.stem] in str(output) for output in outputs)
