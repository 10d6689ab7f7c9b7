"""How Sphinx makes the documentation: `make docs`, strict, into site/; a page loads nothing from elsewhere."""

import re
from importlib.metadata import version as installed_version
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/tacenda/tacenda"

project = "Tacenda"
author = "The Tacenda developers"
copyright = "2026, the Tacenda developers"
release = version = installed_version("tacenda")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
]

# Pages are Markdown that GitHub shows too: formulas stand between dollars or in fences named math.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
exclude_patterns = ["api/generated/*.md"]

templates_path = ["templates"]
autosummary_generate = True
# What our classes inherit from a host is documented there.
autodoc_default_options = {
    "members": True,
    "inherited-members": "AlgoBase",
    "show-inheritance": True,
}
autodoc_typehints = "none"  # signatures show them, and docstrings say what they mean
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"Tacenda {release}"
html_static_path = ["static"]
html_logo = "static/logo.svg"
html_favicon = "static/favicon.svg"
html_css_files = ["layout.css"]
html_sidebars = {"index": [], "install": []}  # neither is within a section
html_theme_options = {
    "logo": {"text": "Tacenda"},
    "github_url": REPOSITORY,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True


def link_to_repository(app: object, page: str, source: list[str]) -> None:
    """Turn links that lead out of docs/ in the repository into links to the repository."""
    up = r"\.\./" * (page.count("/") + 1)
    source[0] = re.sub(
        rf"(?<!!)(\[[^\]]*\])\({up}(?!\.\./|benchmarks/results/[^)]*\.png)([^)#]+)(#[^)]*)?\)",
        lambda match: f"{match[1]}({REPOSITORY}/blob/main/{match[2]}{match[3] or ''})",
        source[0],
    )


def setup(app: object) -> None:
    """Connect what this file adds."""
    app.connect("source-read", link_to_repository)  # type: ignore[attr-defined]
