"""Execute `notebooks/*.py` and write each with its outputs beside it: ``make notebooks``.

A script in Jupytext's percent format is the source; the `.ipynb` is made from it and never edited.
What differs from machine to machine is taken out: times of execution, paths, addresses of objects
and versions. Figures have a palette of 128 colors, which makes a file a third as large.
"""

import base64
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
TIMEOUT = 600
"""Seconds for one cell."""
COLORS = 128
ADDRESS = re.compile(r"^<.* at 0x[0-9a-f]+>$", re.DOTALL)
"""The text of an object that has no text of its own."""


def execute(path: Path, folder: str | Path) -> Any:
    """Run a script as a notebook in a folder, and give it with its outputs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell raised an error.
    """
    import jupytext
    import nbclient

    notebook = jupytext.read(path)
    client = nbclient.NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )
    # Whoever runs this may have a backend without a display, which draws nothing.
    client.execute(env={name: value for name, value in os.environ.items() if name != "MPLBACKEND"})
    return notebook


def clean(notebook: Any) -> list[str]:
    """Take out what differs from run to run, and give what was written to the standard error."""
    complaints = []
    for place, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{place:02d}"
        cell["metadata"] = {}
        if cell.cell_type != "code":
            continue
        kept = []
        for output in cell["outputs"]:
            if output.get("name") == "stderr":
                # Progress is told there, and warnings with paths of this machine.
                complaints.append(output["text"])
                continue
            data = output.get("data", {})
            if ADDRESS.match(data.get("text/plain", "")):
                continue
            # A widget needs a kernel behind it.
            if any(kind.startswith("application/vnd.jupyter.widget") for kind in data):
                continue
            if "image/png" in data:
                data["image/png"] = with_palette(data["image/png"])
            kept.append(output)
        cell["outputs"] = kept
    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return complaints


def with_palette(image: str) -> str:
    """Write a PNG anew with a palette; both in base64."""
    from PIL import Image

    drawn = Image.open(io.BytesIO(base64.b64decode(image)))
    written = io.BytesIO()
    small = drawn.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    small.save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def main(names: list[str]) -> None:
    """Execute the notebooks of these names, such as ``04_trust``, or all of them."""
    import nbformat

    paths = [FOLDER / f"{name}.py" for name in names] or sorted(FOLDER.glob("*.py"))
    for path in paths:
        print(path.stem, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path, folder)
        for complaint in clean(notebook):
            print(complaint, file=sys.stderr)
        written = path.with_suffix(".ipynb.part")
        nbformat.write(notebook, written)
        os.replace(written, path.with_suffix(".ipynb"))


if __name__ == "__main__":
    main(sys.argv[1:])
