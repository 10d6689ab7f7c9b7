"""The notebooks run from top to bottom, and show what they print: `make outputs` writes it."""

from pathlib import Path

import pytest

from support.pages import agree

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


def printed(cell):
    """What a cell of code prints on standard output."""
    parts = [part for part in cell.outputs if part.get("name") == "stdout"]
    return "".join(part["text"] for part in parts)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_show_what_they_print(path, monkeypatch, request):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("TACENDA_PROGRESS", "0")
    notebook = nbformat.read(path, as_version=4)
    shown = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": path.parent}}
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if request.config.getoption("--write-outputs"):
        for cell in cells:
            cell.metadata.clear()
            cell.outputs = [part for part in cell.outputs if part.get("name") != "stderr"]
        notebook.metadata.language_info = {"name": "python"}
        nbformat.write(notebook, path)
        return
    for cell, before in zip(cells, shown, strict=True):
        assert agree(before or None, printed(cell)), cell.source
