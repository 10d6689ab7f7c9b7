"""For mkdocs: pages of the documentation show pictures of benchmarks/results where they are."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_RESULTS = Path(__file__).parent / "results"


def on_files(files: Files, config: Any) -> Files:
    """Put every picture into the site, under pictures/."""
    for path in sorted(_RESULTS.glob("*.png")):
        files.append(File.generated(config, f"pictures/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links that lead out of docs/ in the repository lead to the site's pictures."""
    return markdown.replace("](../benchmarks/results/", "](pictures/")
