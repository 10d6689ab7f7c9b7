"""What the pages import is public: it is listed in the reference, and its module offers it."""

import ast
import importlib
import inspect
import re

import pytest

from support.pages import PAGES, ROOT, read_blocks
from tacenda import kernels

API = ROOT / "docs" / "api"
DIRECTIVE = re.compile(r"^\.\. ([\w:]+)::(.*)\n((?:   .*\n|\n)*)", re.MULTILINE)


def listed():
    """The full names that the pages of the reference list."""
    names = set()
    for page in API.glob("*.md"):
        module = ""
        for kind, argument, body in DIRECTIVE.findall(page.read_text(encoding="utf8")):
            argument = argument.strip()
            entries = re.findall(r"^ +(\w+)$", body, re.MULTILINE)
            if kind == "currentmodule":
                module = argument
            elif kind == "autosummary":
                names |= {f"{module}.{entry}" for entry in entries}
            elif kind == "automodule":
                names |= {argument} | {f"{argument}.{each}" for each in members(argument, body)}
            else:
                names.add(argument)
    return names


def members(name, body):
    if chosen := re.search(r":members: (.+)", body):
        return chosen[1].split(", ")
    module = importlib.import_module(name)
    if ":imported-members:" in body:
        return module.__all__
    return [
        each for each, value in vars(module).items() if getattr(value, "__module__", None) == name
    ]


def imported():
    """The full names of Tacenda that pages import, and where."""
    for page in PAGES:
        for block in read_blocks(page):
            if block.language != "python":
                continue
            for node in ast.walk(ast.parse(block.code)):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("tacenda"):
                    for name in node.names:
                        yield f"{node.module}.{name.name}", page


def test_what_pages_import_is_listed_in_the_reference():
    public = listed()
    missing = {
        f"{name} ({page.name})"
        for name, page in imported()
        if name not in public and not inspect.ismodule(resolve(name))
    }
    assert not missing, f"list these in docs/api, or do not show them: {sorted(missing)}"


def resolve(name):
    module, _, attribute = name.rpartition(".")
    found = importlib.import_module(module)
    if not hasattr(found, attribute):
        return importlib.import_module(name)
    return getattr(found, attribute)


def test_everything_in_the_reference_exists():
    for name in listed():
        resolve(name) if "." in name else importlib.import_module(name)


@pytest.mark.parametrize(
    "package", ["tacenda", "tacenda_embeddings", "tacenda_lm", "tacenda_surprise"]
)
def test_what_a_package_offers_is_listed_in_the_reference(package):
    module = importlib.import_module(package)
    names = {f"{package}.{name}" for name in module.__all__}
    modules = {name for name in names if inspect.ismodule(resolve(name))}
    assert not names - modules - listed()


def test_every_operation_is_listed_in_the_reference():
    public = listed()
    kernels.dispatch.define_operations()
    own = [
        call.specification
        for call in kernels.dispatch.OPERATIONS.values()
        if call.specification.__module__.startswith("tacenda.")
    ]
    assert own
    assert {f"{each.__module__}.{each.__name__}" for each in own} <= public
