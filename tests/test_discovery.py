"""Discovery with real metadata: a distribution is a .dist-info folder and a module on a path."""

from tacenda import plugins
from tacenda.cli.main import OURS

COMMANDS = "import typer\napp = typer.Typer()\n"


def test_listing_imports_neither_plugins_nor_anything_heavy(site):
    site.install(
        "fake-plugin",
        """
        [tacenda.embedders]
        fake = fake_plugin_module:Fake
        [tacenda.commands]
        fake = fake_plugin_module:app
        """,
        fake_plugin_module="raise SystemExit('imported')",
    )
    out = site.python("""
        import sys
        import tacenda
        light = set(sys.modules)
        records = tacenda.plugins.available()
        assert {(r.kind, r.name) for r in records} >= {("embedders", "fake"), ("kernels", "cpu")}
        assert all(r.status == "not loaded" and r.version for r in records)
        heavy = {"numpy", "scipy", "numba", "torch", "spacy", "safetensors", "fake_plugin_module"}
        print(sorted(heavy & set(sys.modules)))
        print(sorted(m for m in sys.modules if m.startswith("tacenda")))
        """)
    ours = ["tacenda", "tacenda.errors", "tacenda.forks", "tacenda.lazy", "tacenda.plugins"]
    assert out.splitlines() == ["[]", str(ours)]


def test_help_imports_nothing_that_it_does_not_print_with(site):
    for i in range(3):
        site.install(f"more-{i}", f"[tacenda.commands]\nmore{i} = more_{i}:app\n")
    out = site.python("""
        import sys
        sys.argv = ["tacenda", "--help"]
        from tacenda.cli import start
        try:
            start()
        except SystemExit:
            pass
        heavy = {"numpy", "scipy", "numba", "spacy", "torch", "tacenda.datasets", "tacenda.artifact"}
        print(({"rich", "pygments"} | heavy) & sys.modules.keys())
        """)
    assert "more2" in out
    assert out.strip().endswith("set()")


def test_only_the_metadata_of_plugins_are_read(site):
    site.install("a-plugin", "[tacenda.embedders]\nmine = a_module:Model\n")
    site.install("no-plugin", "[console_scripts]\nother = other:main\n")
    out = site.python("""
        from importlib import metadata
        from tacenda import plugins
        read, read_text = [], metadata.PathDistribution.read_text
        def watched(dist, file):
            read.append((dist._path.name.partition("-")[0], file))
            return read_text(dist, file)
        metadata.PathDistribution.read_text = watched
        print([r.name for r in plugins.available() if r.distribution == "a-plugin"])
        print(*(any(each == (name, "METADATA") for each in read) for name in ("a_plugin", "no_plugin", "numpy")))
        """)
    assert out.splitlines() == ["['mine']", "True False False"]


def test_a_rival_claim_does_not_change_what_an_artefact_loads_with(site, tmp_path):
    """A saved model records its distribution, so a stranger's claim on its name changes nothing."""
    source = """
        from tacenda.estimator import Estimator
        class Model(Estimator):
            kind, name, distribution = "embedders", "shared", "{0}"
            def config_dict(self): return {{}}
            def arrays(self): return {{}}
            @classmethod
            def from_arrays(cls, config, arrays): return cls()
        """
    for name in ("one", "two"):
        site.install(
            name,
            f"[tacenda.embedders]\nshared = {name}_module:Model\n",
            **{f"{name}_module": source.format(name)},
        )
    model = tmp_path / "model"
    out = site.python(f"""
        import tacenda, two_module
        two_module.Model().save({str(model)!r})
        print(type(tacenda.load({str(model)!r})).__module__)
        """)
    assert out.strip() == "two_module"


def test_the_command_line_lists_a_sick_plugin_and_says_why(site):
    site.plugin("sick", "1 / 0", "embedders", "Model")
    unloaded, traced = (
        "\n".join(site.listed("embedders", more)) for more in ("--no-load", "--traceback")
    )
    assert "ZeroDivisionError" not in unloaded
    assert "not loaded" in unloaded
    assert "sick:Model: ZeroDivisionError: division by zero" in traced
    assert "1 / 0" in traced


def test_a_broken_command_plugin_leaves_help_and_other_commands_alone(site):
    site.plugin("sick", "1 / 0")
    site.plugin("odd", "app = 7")
    site.plugin("well", COMMANDS + "@app.command()\ndef greet(name: str): print('hello', name)\n")
    help_text = site.tacenda("--help")
    assert help_text.returncode == 0
    assert all(name in help_text.stdout for name in ("sick", "well", "plugins", "data"))
    greeted = site.tacenda("well", "greet", "you")  # a group even with a single command
    assert (greeted.returncode, greeted.stdout) == (0, "hello you\n")
    sick = site.tacenda("sick", "--help")
    assert (sick.returncode, sick.stdout) == (1, "")
    assert sick.stderr.count("\n") == 1
    assert "ZeroDivisionError" in sick.stderr
    odd = site.tacenda("odd")
    assert (odd.returncode, odd.stderr.count("\n")) == (1, 1)
    assert "it is an object of type int, not a typer.Typer" in odd.stderr


def test_command_groups_of_one_name_are_reached_by_their_distribution(site):
    for name in ("one", "two"):
        source = f"{COMMANDS}@app.command()\ndef who(): print('{name}')\n"
        entry = f"[tacenda.commands]\nshared = {name}_module:app\nplugins = {name}_module:app\n"
        site.install(name, entry, **{f"{name}_module": source})
    assert site.tacenda("shared@two", "who").stdout == "two\n"
    assert site.tacenda("shared", "who").returncode == 2
    assert "kind" in site.tacenda("plugins", "--no-load").stdout  # ours cannot be taken over


def test_our_commands_keep_their_names_whoever_else_claims_them(site):
    site.install("a-rival", "[tacenda.commands]\nlm = a_rival:app\n", a_rival=COMMANDS)
    site.install("another", "[tacenda.commands]\nnew = another:app\n", another=COMMANDS)
    out = site.python("""
        from tacenda.cli.main import _make_lazy_commands
        found = _make_lazy_commands(frozenset(), 0)
        print("lm" in found, "lm@tacenda-lm" in found, "lm@a-rival" in found, "new" in found)
        print(found["lm"].help)
        """)
    assert out.splitlines() == ["True False True True", "Fit, apply and mix language models."]


def test_the_help_describes_each_of_our_groups_as_the_group_describes_itself():
    ours = [r for r in plugins.available("commands") if r.distribution in OURS]
    groups = [plugins.get("commands", r.name, distribution=r.distribution) for r in ours]
    assert {r.distribution: g.info.help for r, g in zip(ours, groups, strict=True)} == OURS


def test_a_group_of_entry_points_that_nothing_reads_is_shown(site):
    site.install("mistaken", "[tacenda.embedder]\nmine = a_module:Mine\n")
    site.install("strange", "[tacenda.zebras]\nmine = a_module:Mine\n")
    site.install("carrier", "[tacenda.models]\nmine = a_module\n")
    mistaken, strange = (line for line in site.listed("--no-load") if "nothing reads" in line)
    assert mistaken.startswith("mistaken: ")
    assert mistaken.endswith("in the group tacenda.embedder; is tacenda.embedders meant?")
    assert strange.startswith("strange: ")
    assert "the groups are tacenda.kernels, " in strange
