"""Plugins that fail at import, are no plugins, or have damaged metadata: none disturbs another, each is named."""

import os
import signal

import pytest

KINDS = ("kernels", "embedders", "language_models", "recommenders", "datasets", "commands")

SOUND = """
    from tacenda.datasets import DatasetSpec
    from tacenda.kernels import Backend
    import typer

    class embedders: kind = "embedders"
    class language_models: kind = "language_models"
    class recommenders: kind = "recommenders"
    kernels = Backend(priority=5, sound_operation=lambda: 42)
    datasets = DatasetSpec(name="sound-data", title="", license="", license_text="", homepage="",
                           files={"all": ("a",)}, obtain="Ask.")
    commands = typer.Typer()

    @commands.command()
    def answer(): print(42)
    """

#: What a module of a sick plugin does -> what the registry says of it.
FAULTS = {
    "exits": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "leaves": ("exit()", "SystemExit"),
    "panics": (
        "class PanicException(BaseException): pass\nraise PanicException('a bug in Rust')",
        "PanicException: a bug in Rust",
    ),
    "mute": (
        "class Mute(BaseException):\n    def __str__(self): raise ValueError\nraise Mute",
        "Mute",
    ),
    "loud": ("raise ValueError('\\x1b[2J' + 5000 * 'x')", "ValueError: \\x1b[2Jxxx"),
    "none": ("thing = None", "it is None, not a"),
    "number": ("thing = 7", "it is an object of type int, not a"),
    "wrong": ("class thing: kind = 'models'", "thing'>, not a"),
    "hollow": ("", "has no attribute 'thing'"),
    "torn": ("def broken(:", "SyntaxError"),
}


def install_everything(site):
    groups = "".join(f"[tacenda.{kind}]\nsound = sound:{kind}\n" for kind in KINDS)
    site.install("sound-plugins", groups, sound=SOUND)
    for fault, (source, _) in FAULTS.items():
        groups = "".join(f"[tacenda.{kind}]\n{fault} = {fault}_module:thing\n" for kind in KINDS)
        site.install(f"a-{fault}", groups, **{f"{fault}_module": source})


def test_whatever_a_plugin_does_at_import_it_is_broken_and_the_others_load(site):
    install_everything(site)
    out = site.python(f"""
        from tacenda import plugins
        from tacenda.errors import PluginLoadError
        for kind in {KINDS}:
            assert plugins.get(kind, "sound") is not None
            for fault in {list(FAULTS)}:
                try:
                    plugins.get(kind, fault)
                except PluginLoadError as error:
                    print(kind, fault, error, sep="|")
            broken = [r.name for r in plugins.available(kind) if r.status == "broken"]
            assert set(broken) == set({list(FAULTS)}), broken
        """)
    lines = [line.split("|") for line in out.splitlines()]
    assert [(kind, fault) for kind, fault, _ in lines] == [(k, f) for k in KINDS for f in FAULTS]
    for kind, fault, message in lines:
        assert f"the plugin '{fault}' ({kind}) of a-{fault} 1.0 cannot be loaded" in message
        assert FAULTS[fault][1] in message
        assert len(message) < 900


def test_hosts_of_broken_plugins_go_on_with_the_others(site):
    """The dispatcher and the registry of datasets, which go through all plugins, warn once of each."""
    install_everything(site)
    out = site.python("""
        import warnings
        from tacenda import datasets, kernels
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert [kernels.resolve("sound_operation")() for _ in range(2)] == [42, 42]
            assert kernels.operations()["sound_operation"] == ["sound"]
        print(*(warning.message for warning in caught), sep="\\n")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert [datasets.get("sound-data").obtain for _ in range(2)] == ["Ask.", "Ask."]
        print(len(caught))
        try:
            with kernels.use("panics"):
                kernels.resolve("sound_operation")
        except kernels.dispatch.KernelError as error:
            print(error)
        """)
    *warned, of_datasets, asked_for = out.splitlines()
    assert len(warned) == int(of_datasets) == len(FAULTS)
    for fault, (_, reason) in FAULTS.items():
        [line] = [line for line in warned if f"the kernel backend {fault} of a-{fault}" in line]
        assert reason in line
    assert "'panics' is ready here" in asked_for
    assert "PanicException: a bug in Rust" in asked_for


def test_the_command_line_lists_all_and_names_the_reasons(site):
    install_everything(site)
    lines = site.listed()
    for fault, (_, reason) in FAULTS.items():
        places = [i for i, line in enumerate(lines) if f"  a-{fault}  " in line]
        assert len(places) == len(KINDS)
        for i in places:
            assert lines[i].endswith("broken")
            assert reason in lines[i + 1]
    assert sum(" sound-plugins " in line and line.endswith("loaded") for line in lines) == 6
    assert site.tacenda("sound", "answer").stdout == "42\n"
    sick = site.tacenda("panics", "answer")
    assert (sick.returncode, sick.stdout, sick.stderr.count("\n")) == (1, "", 1)


def test_an_operation_whose_module_exits_leaves_the_backend_s_others_alone(site):
    site.install(
        "lazy",
        "[tacenda.kernels]\nlazy = lazy_module\n",
        lazy_module="""
            kind, priority, sound, odd = "kernels", 5, max, 3.14
            def __getattr__(name):
                if name == "leaves":
                    from leaving import run
                raise AttributeError(name)
            """,
        leaving="exit()",
    )
    out = site.python("""
        from tacenda import kernels
        print(kernels.resolve("sound")(2, 3))
        for operation in ("leaves", "odd"):
            try:
                kernels.resolve(operation)
            except kernels.dispatch.KernelError as error:
                print(error)
        """)
    answer, leaves, odd = out.splitlines()
    assert answer == "3"
    assert "lazy cannot be imported (SystemExit" in leaves
    assert "no kernel backend runs 'odd' on cpu" in odd


WELL = "[tacenda.embedders]\nwell = well_module:Model\n"
MODEL = "class Model:\n    kind = 'embedders'\n"

#: Damaged entry_points.txt -> what the warning says.
TORN = {
    "garbage": (b"\xf0\xff\x00[tacenda.embedders]\xba", "is not UTF-8 at byte 0"),
    "part-garbage": (b"[tacenda.embedders]\nmine = m:M\xff\n", "not UTF-8 at byte 30"),
    "no-equals": ("[tacenda.embedders]\nmine m:M\n", "line 2 of entry_points.txt, 'mine m:M', is"),
    "no-name": ("[tacenda.embedders]\n= m:M\n", "'= m:M'"),
    "no-value": ("[tacenda.embedders]\nmine =\n", "mine ="),
    "no-path": ("[tacenda.embedders]\nmine = !! m\n", "is not NAME = MODULE:OBJECT"),
    "no-section": ("mine = m:M\n", "in a [group]"),
    "half-section": ("[tacenda.embedders]\n[tacenda.\n", "line 2"),
}


LIST_AND_ASK = """
from tacenda import plugins
from tacenda.cli.main import app
from tacenda.errors import PluginError
app(["plugins", "embedders"], standalone_mode=False)
try:
    plugins.get("embedders", "mine")
except PluginError as error:
    print(error)
"""


def test_damaged_entry_points_are_named_once_and_hide_no_other_plugin_nor_sound_lines(site):
    for case, (content, _) in TORN.items():
        site.install(case, content)
    site.install("well", f"{WELL}this line is no entry point\n", well_module=MODEL)
    done = site.run("-c", LIST_AND_ASK)
    assert done.returncode == 0, done.stderr
    *listed, asked_for = done.stdout.splitlines()
    assert ["embedders", "well", "well", "1.0", "loaded"] in [line.split() for line in listed]
    warned = done.stderr.splitlines()
    assert len(warned) == len(TORN) + 1
    for case, (_, reason) in {**TORN, "well": ("", "'this line is no entry point'")}.items():
        [line] = [line for line in warned if line.startswith(f"{case} 1.0 is damaged")]
        assert reason in line
        assert any(line.startswith(f"{case}: its entry points cannot all be") for line in listed)
        assert case in asked_for


def test_distributions_without_metadata_are_named_by_their_folders(site):
    metadata = ["", "\xff\xfe", b"\xba\x00", "Version: 2\n", None]
    for number, content in enumerate(metadata):
        info = site.install(f"lost-{number}", WELL, metadata=content or b"", well_module=MODEL)
        if content is None:
            (info / "METADATA").unlink()
    site.install("other", WELL.replace("well =", "other ="))
    site.install("ageless", WELL.replace("well =", "old ="), metadata="Name: ageless\n")
    listed = site.tacenda("plugins", "embedders")
    assert listed.returncode == 0
    lines = listed.stdout.splitlines()
    for number in range(len(metadata)):
        assert any(
            line.startswith(f"lost_{number}: its entry points cannot all be") for line in lines
        )
    assert any(line.split()[2:] == ["other", "1.0", "loaded"] for line in lines)
    assert any(line.split()[1:] == ["old", "ageless", "loaded"] for line in lines)
    assert listed.stderr.count("its METADATA") == len(metadata)


def test_compiled_kernels_run_beside_entry_points_that_cannot_be_read(site):
    """numba reads all entry points that are installed before it first compiles."""
    site.install("garbage", b"\xf0\xff[tacenda.kernels]")
    done = site.run(
        "-c",
        "import numpy as np\n"
        "from tacenda.kernels.counts import lagged_counts\n"
        "print(lagged_counts(np.array([0, 1, 0, 1], np.int32), 1, 2)[0].data)",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1 2]"
    assert done.stderr.count("garbage 1.0 is damaged: entry_points.txt is not UTF-8") == 1


ENDED = "it ended the process ({}) while it was imported"
ENDINGS = {
    "a-exits": ("import os; os._exit(3)", ENDED.format("exit status 3")),
    "b-crashes": (
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        ENDED.format("SIGSEGV"),
    ),
    "c-raises": ("raise SystemExit(7)", "SystemExit: 7"),
}


def test_a_plugin_that_ends_its_process_is_named_and_hides_no_other(site):
    for name, (source, _) in ENDINGS.items():
        site.plugin(name, source)
    lines = site.listed("commands")
    for name, (_, reason) in ENDINGS.items():
        (i,) = [i for i, line in enumerate(lines) if f" {name} " in line]
        assert lines[i].endswith("broken")
        assert reason in lines[i + 1]
    assert all(line.endswith(" loaded") for line in lines if "tacenda-" in line)


def test_a_plugin_that_does_not_come_to_an_end_is_named(site):
    # what it starts holds the output of the command, and would keep its reader waiting
    starts = "import subprocess; subprocess.Popen(['sleep', '10000'])\nwhile True: pass"
    site.plugin("a-loop", starts)
    listed = "\n".join(site.listed("commands", "--timeout", "2"))
    assert "a_loop:app: it was not loaded within 2 seconds" in listed


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_plugin_during_whose_import_the_command_is_terminated_is_not_to_blame(site):
    site.plugin("a-term", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    done = site.tacenda("a-term", "x")
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")


def test_what_plugins_print_and_their_warnings_as_errors_do_no_harm(site):
    site.plugin("a-noise", "print('x'); 1 / 0")
    site.plugin("a-warn", "import warnings; warnings.warn('old', DeprecationWarning)")
    listed = site.run("-W", "error", "-m", "tacenda", "plugins", "commands")
    assert listed.returncode == 0, listed.stderr
    assert "Traceback" not in listed.stdout + listed.stderr
    assert "a_noise:app: ZeroDivisionError: division by zero" in listed.stdout
    assert "a_warn:app: DeprecationWarning: old" in listed.stdout
