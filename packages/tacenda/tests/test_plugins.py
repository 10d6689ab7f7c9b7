"""The registry, with made-up distributions; real metadata are in the root's test_discovery.py."""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import pytest

from tacenda import plugins
from tacenda.errors import ConfigurationError, PluginError, PluginLoadError, PluginUnavailableError


class FakeDistribution:
    """A distribution of these entry points: (group, name, what loading it does) or (..., its value)."""

    def __init__(self, name, points=(), version="1.0"):
        text = f"Name: {name}\n" if name else ""
        self._files = {
            "METADATA": f"{text}Version: {version}\n\nA README.\nName: no header\n",
            "entry_points.txt": points,
        }
        if isinstance(points, list):
            lines = []
            for group, name, load, *value in points:
                (target,) = value or [f"module:Loaded{len(LOADS)}"]
                LOADS[target] = load
                lines.append(f"[{group}]\n{name} = {target}\n")
            self._files["entry_points.txt"] = "".join(lines)

    def read_text(self, name):
        text = self._files.get(name)
        if isinstance(text, Exception):
            raise text
        return text


LOADS = {}  # the target of an entry point -> what loading it does


def model(**attributes):
    """A class that says that it is an embedder."""
    return type("Model", (), {"kind": "embedders", **attributes})


def raising(error):
    def load():
        raise error

    return load


@pytest.fixture
def install(monkeypatch):
    """Replace what is installed by fake distributions, and forget them afterwards."""

    monkeypatch.setattr(plugins, "_registered", {})
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda point: LOADS[point.value]())

    def install(*distributions):
        monkeypatch.setattr(metadata, "distributions", lambda: iter(distributions))
        plugins.refresh()

    yield install
    monkeypatch.undo()
    plugins.refresh()


def embedder(name, load, *value):
    return ("tacenda.embedders", name, load, *value)


def test_a_registered_object_is_got_listed_and_taken_back(install):
    plugins.register("embedders", "mine", mine := model())
    assert plugins.get("embedders", "mine") is mine
    (record,) = [r for r in plugins.available("embedders") if r.name == "mine"]
    assert (record.distribution, record.status) == (plugins.RUNTIME, "loaded")
    plugins.unregister("embedders", "mine")
    with pytest.raises(PluginError, match="no plugin 'mine'"):
        plugins.get("embedders", "mine")
    generation = plugins.generation
    with pytest.raises(PluginError, match="not registered"):
        plugins.unregister("embedders", "mine")
    assert plugins.generation == generation


def test_an_unfitted_model_is_made_from_its_name_and_options(install):
    class Old:
        """A model without `Settings`, whose constructor raises TypeError for what it does not know."""

        def __init__(self, width=3):
            self.width = width

        kind = "embedders"

    with pytest.raises(PluginError, match="old"):
        plugins.make("embedders", "old")
    plugins.register("embedders", "old", Old)
    assert plugins.make("embedders", "old").width == 3
    assert plugins.make("embedders", "old", {"width": 5}).width == 5
    with pytest.raises(ConfigurationError, match=r"Old cannot be made with the options depth"):
        plugins.make("embedders", "old", {"depth": 5})
    for wrong, shown in (([1], r"\[1\]"), ({1: 2}, r"\{1: 2\}")):
        with pytest.raises(ConfigurationError, match=f"must be a mapping .*not {shown}"):
            plugins.make("embedders", "old", wrong)
    with pytest.raises(ConfigurationError, match=r"plugins.get\('datasets', 'penn'\)"):
        plugins.make("datasets", "penn")


def test_registering_again_replaces_as_when_a_notebook_cell_is_run_twice(install):
    for mine in (model(), model()):
        plugins.register("embedders", "mine", mine)
        assert plugins.get("embedders", "mine") is mine


def test_another_object_cannot_be_registered_for_the_distribution_that_installs_the_name(install):
    install(FakeDistribution("Some.Dist", [embedder("lds", model, "their.module:LDS")]))
    with pytest.raises(
        PluginError, match=r"Some.Dist installs another 'lds' .* from their.module:LDS: leave out"
    ):
        plugins.register("embedders", "lds", object(), distribution="some-dist")


def test_that_the_installed_one_cannot_be_imported_is_said_to_who_registers_another(install):
    load = raising(ImportError("no torch"))
    install(FakeDistribution("dist", [embedder("lds", load, "their.module:LDS")]))
    with pytest.raises(
        PluginError,
        match=r"their.module:LDS: that one cannot be loaded \(.*no torch\), so repair it",
    ):
        plugins.register("embedders", "lds", object(), distribution="dist")


def test_registering_what_the_distribution_installs_itself_changes_nothing(install):
    installed = [model(name="lds", distribution="some-dist")]
    install(FakeDistribution("Some.Dist", [embedder("lds", lambda: installed[-1])]))
    before = plugins.available("embedders")
    plugins.register("embedders", "lds", installed[0], distribution="some-dist")
    assert [r.key for r in plugins.available("embedders")] == [r.key for r in before]
    assert plugins.get("embedders", "lds") is installed[0]
    installed.append(model(name="lds", distribution="some-dist"))  # its module is reloaded
    plugins.register("embedders", "lds", installed[1], distribution="some-dist")
    assert plugins.get("embedders", "lds") is installed[1]


@pytest.mark.parametrize("module", [__name__, "package_that_exports_it"])
def test_registering_an_installed_class_without_its_distribution_claims_the_name_once(
    install, module
):
    mine = model(name="lds", distribution="some-dist")
    install(FakeDistribution("Some.Dist", [embedder("lds", lambda: mine, f"{module}:Model")]))
    mine.__qualname__ = "Model"
    plugins.register("embedders", "lds", mine)
    assert plugins.get("embedders", "lds") is mine
    if module == __name__:
        defined_again = model()
        defined_again.__qualname__ = "Model"
        with pytest.raises(PluginError, match=r"Some.Dist installs another 'lds'.*leave out"):
            plugins.register("embedders", "lds", defined_again)


def test_a_name_that_is_not_found_brings_up_groups_that_nothing_reads(install):
    install(FakeDistribution("mine", [("tacenda.embedder", "forest", object)]))
    with pytest.raises(
        PluginError,
        match=r"no plugin 'forest' .*; mine: nothing reads .* group tacenda.embedder; is tacenda.embedders",
    ):
        plugins.get("embedders", "forest")


def test_a_runtime_object_does_not_silently_displace_an_installed_one(install):
    installed = model()
    install(FakeDistribution("dist", [embedder("lds", lambda: installed)]))
    plugins.register("embedders", "lds", mine := model())
    with pytest.raises(PluginError, match=r"<runtime> .* and dist"):
        plugins.get("embedders", "lds")
    assert plugins.get("embedders", "lds", distribution="dist") is installed
    assert plugins.get("embedders", "lds", distribution=plugins.RUNTIME) is mine


@pytest.mark.parametrize("act", [plugins.available, lambda kind: plugins.get(kind, "x")])
def test_an_unknown_kind_is_an_error_that_lists_the_kinds(act):
    with pytest.raises(PluginError, match="kinds are kernels, embedders"):
        act("models")


def test_an_unknown_name_lists_what_is_installed_and_the_nearest(install):
    install(FakeDistribution("a", [embedder("lds", object), embedder("varembed", object)]))
    with pytest.raises(PluginError, match=r"installed are lds, varembed; did you mean 'varembed'"):
        plugins.get("embedders", "varembd")
    with pytest.raises(PluginError, match="none is installed"):
        plugins.get("recommenders", "pmf")
    with pytest.raises(PluginError, match="no plugin None"):
        plugins.get("embedders", None)
    with pytest.raises(
        PluginError, match=r"b installs no 'lds' under tacenda.embedders, but a does"
    ):
        plugins.get("embedders", "lds", distribution="b")


def test_a_name_of_two_distributions_is_an_error_only_when_it_is_asked_for(install):
    first, second = model(), model()
    install(
        FakeDistribution("a", [embedder("lds", lambda: first), embedder("only", model)]),
        FakeDistribution("b_c", [embedder("lds", lambda: second)]),
    )
    assert len(plugins.available("embedders")) == 3
    assert plugins.get("embedders", "only") is not None
    with pytest.raises(
        PluginError, match=r"claimed by a \(module:Loaded\d+\) and b_c .*choose one, as in lds@a"
    ):
        plugins.get("embedders", "lds")
    assert plugins.get("embedders", "lds", distribution="a") is first
    assert plugins.get("embedders", "lds", distribution="B.c") is second  # names are normalized
    assert plugins.get("embedders", "lds@a") is first
    assert plugins.get("embedders", "lds@b-c") is second
    with pytest.raises(PluginError, match="d installs no 'lds'"):
        plugins.get("embedders", "lds@d")


def test_a_name_that_one_distribution_claims_twice_is_an_error(install):
    install(FakeDistribution("a", [embedder("x", object, "m:A"), embedder("x", object, "m:B")]))
    with pytest.raises(
        PluginError, match=r"claimed by a \(m:A\) and a \(m:B\): a must give each a name"
    ):
        plugins.get("embedders", "x", distribution="a")


def test_an_entry_point_that_is_written_twice_counts_once(install):
    found = model()
    install(FakeDistribution("a", [embedder("x", lambda: found, "m:A")] * 2))
    assert plugins.get("embedders", "x") is found


@pytest.mark.parametrize("name", ["", "x@mine", None])
def test_a_name_that_nobody_could_ask_for_is_not_registered(install, name):
    with pytest.raises(PluginError, match="needs a name without @"):
        plugins.register("embedders", name, model())


def test_a_distribution_seen_twice_counts_once(install):
    twice = [FakeDistribution(name, [embedder("x", model)]) for name in ("my_dist", "My-Dist")]
    install(*twice)
    [record] = plugins.available("embedders")
    assert record.distribution == "my_dist"


def test_what_is_wrong_with_a_distribution_that_does_not_count_is_not_reported(install, caplog):
    unread = FakeDistribution("a", [("tacenda.embedder", "x", model)])
    install(
        FakeDistribution("a", [embedder("x", model)]), FakeDistribution("a", "tacenda."), unread
    )
    assert [record.name for record in plugins.available()] == ["x"]
    assert (plugins.faults(), caplog.text) == ([], "")


@pytest.mark.parametrize(
    "error",
    [
        ImportError("no torch"),
        SyntaxError("bad"),
        SystemExit(3),
        ValueError("x\n y"),
        GeneratorExit(),
        BaseException("of a panic"),
    ],
)
def test_a_plugin_that_fails_is_broken_with_its_cause_and_disturbs_no_other(install, error):
    good = model()
    install(
        FakeDistribution("bad", [embedder("sick", raising(error))]),
        FakeDistribution("good", [embedder("well", lambda: good)]),
    )
    with pytest.raises(PluginLoadError, match=r"'sick' \(embedders\) of bad 1.0") as caught:
        plugins.get("embedders", "sick")
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)
    assert plugins.get("embedders", "well") is good
    sick, well = plugins.available("embedders")
    assert (sick.status, sick.cause) == ("broken", error)
    assert (well.status, well.cause) == ("loaded", None)


NO_EMBEDDER = "it is .*, not a class whose attribute kind is 'emb"


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        *((each, NO_EMBEDDER) for each in (None, 7, model(kind="recommenders"), model()())),
        (type("Model", (), {}), NO_EMBEDDER),
        (model(api_version=2), "api_version is 2.*speaks 1: upgrade tacenda$"),
        (model(api_version=0), "api_version is 0.*speaks 1: upgrade My.Dist$"),
        (model(api_version="1"), "api_version is '1'.*speaks 1: upgrade My.Dist$"),
        (model(api_version=True), "api_version is True.*speaks 1: upgrade My.Dist$"),
        (model(name="damped"), "'damped' and its entry point's 'x'"),
        *(
            (model(name="x", distribution=owner), "'My.Dist' installs it")
            for owner in ("b", plugins.RUNTIME, None)
        ),
    ],
)
def test_what_is_not_what_its_entry_point_says_is_broken(install, thing, said):
    install(FakeDistribution("My.Dist", [embedder("x", lambda: thing)]))
    with pytest.raises(PluginLoadError, match=said):
        plugins.get("embedders", "x")
    assert plugins.available("embedders")[0].status == "broken"


def test_a_keyboard_interrupt_during_loading_is_not_taken_for_a_broken_plugin(install):
    install(FakeDistribution("a", [embedder("x", raising(KeyboardInterrupt()))]))
    with pytest.raises(KeyboardInterrupt):
        plugins.get("embedders", "x")
    assert plugins.available("embedders")[0].status == "not loaded"


def test_a_plugin_can_say_that_it_is_unavailable_here(install):
    error = PluginUnavailableError("no CUDA device")
    install(FakeDistribution("a", [("tacenda.kernels", "gpu", raising(error))]))
    with pytest.raises(PluginUnavailableError, match="cannot be used here: no CUDA device"):
        plugins.get("kernels", "gpu")
    assert plugins.available("kernels")[0].status == "unavailable"


def test_a_broken_plugin_stays_broken_until_refresh(install):
    mended = model()
    answers = [raising(ImportError("not yet")), lambda: mended]
    install(FakeDistribution("a", [embedder("x", lambda: answers.pop(0)())]))
    for _ in range(2):
        with pytest.raises(PluginLoadError):
            plugins.get("embedders", "x")
    plugins.refresh()
    assert plugins.get("embedders", "x") is mended


@pytest.mark.parametrize("about", [{}, {"api_version": 1}, {"distribution": "my-dist"}], ids=str)
def test_the_api_version_may_be_left_out_and_the_distribution_spelled_otherwise(install, about):
    sound = model(name="x", **about)
    install(FakeDistribution("My.Dist", [embedder("x", lambda: sound)]))
    assert plugins.get("embedders", "x") is sound


def test_unreadable_metadata_of_one_distribution_hide_no_other(install, caplog):
    torn = FakeDistribution("torn", TypeError("not name = value"))
    install(torn, FakeDistribution(None), FakeDistribution("good", [embedder("x", model)]))
    assert [r.name for r in plugins.available()] == ["x"]
    assert "torn 1.0 is damaged" in caplog.text


@pytest.mark.parametrize(
    ("metadata_of_first", "listed"), [("Name: My.Dist\nVersion: 2.0\n", []), (None, ["x"])]
)
def test_a_distribution_without_plugins_hides_a_later_one_of_its_name_unless_it_is_a_remnant(
    monkeypatch, tmp_path, metadata_of_first, listed
):
    first, second = tmp_path / "a" / "my_dist-2.0.dist-info", tmp_path / "b/my_dist-1.0.dist-info"
    for folder in (first, second):
        folder.mkdir(parents=True)
    if metadata_of_first:
        (first / "METADATA").write_text(metadata_of_first)
    (second / "METADATA").write_text("Name: my-dist\nVersion: 1.0\n")
    (second / "entry_points.txt").write_text("[tacenda.embedders]\nx = module:X\n")
    monkeypatch.setattr("sys.path", [str(tmp_path / "a"), str(tmp_path / "b")])
    plugins.refresh()
    assert [r.name for r in plugins.available("embedders") if r.target == "module:X"] == listed
    monkeypatch.undo()
    plugins.refresh()


def test_a_distribution_without_a_version_has_an_empty_one(monkeypatch, tmp_path):
    (tmp_path / "ageless-0.dist-info").mkdir()
    (tmp_path / "ageless-0.dist-info" / "METADATA").write_text("Name: ageless\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.version_of("ageless") == ""


def test_other_groups_are_not_ours(install):
    others = ("", ".", ".other", ".embedders.x")
    strangers = ["embedders", "console_scripts", *(f"tacenda{other}" for other in others)]
    install(FakeDistribution("a", [(group, "x", object) for group in strangers]))
    assert plugins.available() == []


def test_threads_that_ask_at_once_get_one_object(install):
    install(FakeDistribution("a", [embedder("x", model)]))
    barrier = threading.Barrier(8)

    def ask(_):
        barrier.wait()
        return plugins.get("embedders", "x")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(id, pool.map(ask, range(8))))) == 1


def test_a_plugin_may_ask_the_registry_while_it_is_loaded(install):
    base = model()
    inner = embedder("inner", lambda: base)
    outer = embedder("outer", lambda: type("Outer", (plugins.get("embedders", "inner"),), {}))
    install(FakeDistribution("a", [inner, outer]))
    assert issubclass(plugins.get("embedders", "outer"), base)
