"""What several tests that cross packages need."""

import textwrap
import tomllib

import pytest

from support.processes import run_python


def pytest_addoption(parser):
    parser.addoption(
        "--write-outputs", action="store_true", help="write into the pages what their code prints"
    )


class Site:
    """A folder of fake distributions, put on the path of a fresh interpreter."""

    def __init__(self, path):
        self.path = path

    def install(self, name, entry_points, version="1.0", metadata=None, **modules):
        """Write a distribution; metadata and entry points given as bytes are written as they are."""
        info = self.path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        if metadata is None:
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        for file, content in (("METADATA", metadata), ("entry_points.txt", entry_points)):
            if isinstance(content, str):
                content = textwrap.dedent(content).encode()
            (info / file).write_bytes(content)
        for module, source in modules.items():
            (self.path / f"{module}.py").write_text(textwrap.dedent(source))
        return info

    def run(self, *arguments):
        quiet = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
        return run_python(*arguments, PYTHONPATH=str(self.path), **quiet)

    def python(self, source):
        done = self.run("-c", textwrap.dedent(source))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tacenda(self, *arguments):
        return self.run("-m", "tacenda", *arguments)

    def plugin(self, name, source, kind="commands", target="app"):
        """Write a distribution of one plugin, named as it is, in a module of its own."""
        module = name.replace("-", "_")
        self.install(name, f"[tacenda.{kind}]\n{name} = {module}:{target}\n", **{module: source})

    def listed(self, *arguments):
        """Return the lines that ``tacenda plugins`` prints."""
        done = self.tacenda("plugins", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def package_of():
    """A function that writes the package that a page shows into a folder, with the metadata of an installed one.

    A Python block that begins with the path of a file is that file; a TOML block with entry points is
    ``pyproject.toml``. Returns the entry points by group.
    """

    from support.pages import FILE, read_blocks

    def write(page, folder):
        groups = {}
        for language, code, *_ in read_blocks(page):
            block = code.lstrip("\n")
            if language == "toml" and "[project.entry-points" in block and "name =" in block:
                project = tomllib.loads(block)["project"]
                groups = project["entry-points"]
                text = "".join(
                    f"[{group}]\n" + "".join(f"{n} = {target}\n" for n, target in points.items())
                    for group, points in groups.items()
                )
                Site(folder / "src").install(project["name"], text, project["version"])
            if language == "python" and (path := FILE.match(block)):
                (folder / path[1]).parent.mkdir(parents=True, exist_ok=True)
                (folder / path[1]).write_text(block, encoding="utf8")
        return groups

    return write
