"""How Sphinx makes the documentation: `make docs`, strict, into site/; a page loads nothing from elsewhere."""

import ast
import inspect
import re
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from sphinx import addnodes

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

# Pages are Markdown that GitHub shows too: formulas are between dollars or in fences named math.
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
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 80  # longer ones have a parameter a line
suppress_warnings = ["ref.python"]  # a type such as `complex` is not the field of this name
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"  # a column of links is narrow
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_baseurl = "https://tacenda.github.io/tacenda/"
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
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")
html_show_sourcelink = False
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"


# The page that a search for these words finds first.
FOUND_FIRST = {
    "english-models": ["pretrained", "pretrained models", "download"],
    "getting-started": ["getting started", "tutorial", "spacy"],
    "spacy-pipelines": ["tagger", "parser", "named entities", "pipeline"],
    "install": ["install", "installation", "pip", "conda"],
    "ratings": ["recommender", "recommendation", "surprise", "cold start", "new user"],
    "rating-lists": ["implicit feedback", "implicit", "ranking", "top-n"],
    "word-vectors": ["out of vocabulary", "oov", "unknown words", "word vectors"],
    "devices": ["gpu", "cuda"],
    "scale": ["memory", "ram", "cluster", "dask", "large data"],
    "surprisal": ["surprisal", "reading times", "psycholinguistics"],
    "language-models": ["perplexity", "n-grams", "language model"],
    "plugins": ["plugin", "extend"],
    "faq": ["faq"],
}


def add_search_words(app: Any, tree: Any) -> None:
    """Make the words of `FOUND_FIRST` entries of the index, which a search prefers to all else."""
    if words := FOUND_FIRST.get(app.env.current_document.docname):
        entries = [("single", word, "", "main", None) for word in words]
        tree.insert(0, addnodes.index(entries=entries))


def link_to_repository(app: object, page: str, source: list[str]) -> None:
    """Turn links that lead out of docs/ in the repository into links to the repository."""
    up = r"\.\./" * (page.count("/") + 1)
    source[0] = re.sub(
        rf"(?<!!)(\[[^\]]*\])\({up}(?!\.\./|benchmarks/results/[^)]*\.png)([^)#]+)(#[^)]*)?\)",
        lambda match: f"{match[1]}({REPOSITORY}/blob/main/{match[2]}{match[3] or ''})",
        source[0],
    )


def read_directives(app: object, page: str, source: list[str]) -> None:
    """Read what GitHub does not show as Sphinx does: directives in comments, and sections that become tabs."""

    def make_tabs(match: re.Match[str]) -> str:
        _, *parts = re.split(r"^## (.*)\n", match[1], flags=re.MULTILINE)
        tabs = zip(parts[::2], parts[1::2], strict=True)
        items = "".join(f":::{{tab-item}} {title}\n{text}:::\n" for title, text in tabs)
        return f"::::{{tab-set}}\n{items}::::\n"

    text = re.sub(r"<!-- (\{[a-z-]+\}\n.*?)-->", r"```\1```", source[0], flags=re.DOTALL)
    source[0] = re.sub("<!-- tabs -->\n(.*?)<!-- /tabs -->\n", make_tabs, text, flags=re.DOTALL)


def write_types(
    app: object,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str] | None:
    """Write the types of a signature as its source does: `Float[Array, "words width"]`, `NDArray[Any]`, no modules."""
    if specification := getattr(obj, "specification", None):  # an operation
        function = ast.parse(inspect.getsource(specification)).body[0]
        assert isinstance(function, ast.FunctionDef)
        return f"({ast.unparse(function.args)})", ast.unparse(
            function.returns or ast.Constant(None)
        )

    if signature is None:
        return None

    def declared(match: re.Match[str]) -> str:
        dimensions = " ".join(re.findall(r"[^'(), ]+", match[2]))
        return f'{match[1].capitalize()}[Array, "{dimensions}"]'

    def shorten(text: str) -> str:
        text = re.sub(r"~[\w.]*\.", "", text)
        text = re.sub(r"_Buffer \| .*_NestedSequence\[complex \| bytes \| str\]", "ArrayLike", text)
        text = re.sub(
            r"Annotated\[Any, Spec\(kind=(\w+), dims=(.*?), constraints=.*?\)\]", declared, text
        )
        array = r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+(?:\[Any\])?)\]\]"
        return re.sub(array, r"NDArray[\1]", text)

    return shorten(signature), shorten(returns or "")


def keep_equations(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Show indented lines of a docstring's text as they are: equations and examples. Sections are left alone."""
    end = next((n for n, line in enumerate(lines) if line.startswith("---")), len(lines) + 1) - 1
    for n in range(end - 1, 1, -1):
        before = lines[n - 2]
        in_text = before[:1] not in ("", " ") and not before.endswith("::")
        if lines[n].startswith("    ") and not lines[n - 1] and in_text:
            lines[n:n] = ["", "::", ""]


def hide_values(app: object, tree: Any) -> None:
    """Leave out the values of attributes, which are seldom short and seldom promised."""
    for node in list(tree.findall(addnodes.desc_annotation)):
        if node.astext().lstrip().startswith("="):
            node.parent.remove(node)


def skip_fields(
    app: Any, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out the fields of the operations' arguments: the signature of the tuple has them."""
    fields = app.env.docname == "api/kernels" and type(obj).__name__ == "_tuplegetter"
    return True if fields else None


def setup(app: Any) -> None:
    """Connect what this file adds."""
    app.connect("doctree-read", add_search_words)
    app.connect("doctree-read", hide_values)
    app.connect("source-read", link_to_repository)
    app.connect("source-read", read_directives)
    app.connect("autodoc-process-signature", write_types)
    app.connect("autodoc-process-docstring", keep_equations, priority=400)
    app.connect("autodoc-skip-member", skip_fields)
