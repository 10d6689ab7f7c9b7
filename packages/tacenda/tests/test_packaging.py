"""A saved model becomes a wheel, and an installed wheel a model that is found by its name."""

import sys
import tomllib
import zipfile
from dataclasses import replace
from email.parser import Parser

import numpy as np
import pytest
from typer.testing import CliRunner

import tacenda
from support.scale import Scale, registered_models  # noqa: F401
from tacenda import artifact, plugins
from tacenda.artifact import by_name, packaging
from tacenda.artifact.packaging import ModelCard, package, render_pyproject
from tacenda.cli.main import app
from tacenda.errors import ArtifactError, ConfigurationError

pytest.importorskip("hatchling")


@pytest.fixture
def saved(tmp_path):
    model = Scale(np.array([1.0, 2.0]))
    model.fitted_on = {"text": "a | b", "tokens": 10}
    model.figures = [{"measure": "accuracy", "value": 0.9, "protocol": "dev"}]
    model.save(tmp_path / "saved")
    return tmp_path / "saved"


ABOUT = ModelCard("tiny-scale", "1.2.0", "CC-BY-SA-4.0", "Two factors.", "By *the authors*.")


@pytest.fixture(autouse=True)
def _afresh():
    """Forget what was found on the paths of a test."""
    yield
    plugins.refresh()


def list_installed(folder, name, points, monkeypatch, summary=""):
    """Write the metadata of a distribution of these models, and put its folder on the path."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{summary}")
    (info / "entry_points.txt").write_text("[tacenda.models]\n" + points)
    monkeypatch.syspath_prepend(str(folder))
    plugins.refresh()


def install(wheel, site, monkeypatch):
    """What pip does with a wheel that has no scripts."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    plugins.refresh()


@pytest.fixture
def site(saved, tmp_path, monkeypatch):
    install(package(saved, ABOUT, tmp_path / "dist"), tmp_path / "site", monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "site"


@pytest.mark.parametrize("name", ["tiny-scale", "tiny_scale", "Tiny-Scale"])
def test_an_installed_model_is_loaded_by_its_name(site, name):
    model = tacenda.load(name)
    np.testing.assert_array_equal(model.factors, [1.0, 2.0])
    assert model.fitted_on == {"text": "a | b", "tokens": 10}
    assert type(Scale.load(name)) is Scale
    assert not [module for module in sys.modules if module.startswith("tacenda_model_")]


def test_a_folder_of_that_name_is_meant_where_there_is_one(site, tmp_path):
    Scale(np.array([7.0])).save(tmp_path / "tiny-scale")
    np.testing.assert_array_equal(tacenda.load("tiny-scale").factors, [7.0])
    np.testing.assert_array_equal(tacenda.load("./tiny-scale").factors, [7.0])


def test_a_name_that_nothing_has_says_what_there_is(site):
    with pytest.raises(ArtifactError, match=r"no installed model 'tiny-scal': .*did you mean"):
        tacenda.load("tiny-scal")
    with pytest.raises(ArtifactError, match=r"there is no such folder$"):
        tacenda.load("./tiny-scal")


def test_the_wheel_holds_no_code_and_says_what_it_is(saved, tmp_path):
    wheel = package(saved, ABOUT, tmp_path / "dist")
    assert wheel.name == "tacenda_model_tiny_scale-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        told = next(name for name in names if name.endswith("METADATA"))
        metadata = Parser().parsestr(archive.read(told).decode())
        text = archive.read("tacenda_model_tiny_scale/README.md").decode()
    assert not [name for name in names if name.endswith((".py", ".pyc"))]
    assert metadata["License-Expression"] == "CC-BY-SA-4.0"
    assert metadata["Summary"] == "Two factors."
    assert metadata.get_payload().strip() == text.strip()
    for said in ('tacenda.load("tiny-scale")', "| text | a \\| b |", "| accuracy | 0.9 | dev |"):
        assert said in text
    assert "CC-BY-SA-4.0.\n\nBy *the authors*." in text
    assert '"power": 0.5' in text


def test_a_model_of_a_local_version_requires_the_public_version(saved, tmp_path, monkeypatch):
    of_plugin = replace(artifact.read(saved), distribution="tacenda-plugin")
    artifact.write(saved, of_plugin)
    monkeypatch.setattr(packaging, "version_of", lambda distribution: "0.2.dev3+g1a2b3c4")
    with zipfile.ZipFile(package(saved, ABOUT, tmp_path / "dist")) as archive:
        told = next(name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = Parser().parsestr(archive.read(told).decode())
    assert metadata["Requires-Dist"] == "tacenda-plugin>=0.2.dev3"


def test_the_same_model_gives_the_same_bytes(saved, tmp_path):
    first, second = (package(saved, ABOUT, tmp_path / name) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../up"}, "cannot name a model"),
        ({"name": "a\nb"}, "cannot name a model"),
        ({"name": None}, "the name of a model is text, not None"),
        ({"version": 1.2}, r"the version of a model is text, not 1\.2"),
        ({"summary": None}, "the summary of a model is text, not None"),
        ({"version": "first"}, "is not a version"),
        ({"version": " 1.0\n"}, "is not a version"),
        ({"license": "ask me"}, "not an SPDX license"),
        ({"license": "MIT\nOR Apache-2.0"}, "not an SPDX license"),
        ({"summary": "one\ntwo"}, "is one line"),
        ({"summary": "one\rtwo"}, r"leave out '\\r'"),
        ({"summary": "one\x7ftwo"}, r"leave out '\\x7f'"),
        ({"summary": "one\u2028two"}, r"leave out '\\u2028'"),
        ({"summary": "half \ud83c"}, r"leave out '\\ud83c'"),
        ({"attribution": "two\nlines \ud83c"}, r"attribution .*: leave out '\\ud83c'"),
    ],
)
def test_a_bad_card_is_refused(saved, tmp_path, change, message):
    about = ModelCard(**{**vars(ABOUT), **change})
    with pytest.raises(ConfigurationError, match=message):
        package(saved, about, tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_what_cannot_hold_a_wheel_is_named(saved, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ArtifactError, match=r"cannot write a wheel into .*file: File exists$"):
        package(saved, ABOUT, tmp_path / "file")
    with pytest.raises(ArtifactError, match="names no file or folder"):
        package(saved, ABOUT, "")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("dist/a-1.whl", "is a wheel: pip install it"),
        ("https://huggingface.co/owner/name", "fetches one from a hub"),
        ("", "names no file or folder"),
    ],
)
def test_what_has_to_be_fetched_or_installed_first_is_said(source, message):
    with pytest.raises(ArtifactError, match=message):
        tacenda.load(source)


def test_any_printable_character_of_a_summary_stays_as_it_is(saved, tmp_path, monkeypatch):
    summary = 'Says "ünï\\code" = [1], an emoji 🎉 and a family 👩\u200d👧 in 中文.'
    about = ModelCard("tiny", "1", "MIT", summary)
    install(package(saved, about, tmp_path / "dist"), tmp_path / "site", monkeypatch)
    (found,) = [model for model in by_name.available() if model.name == "tiny"]
    assert (found.summary, found.license, found.version) == (about.summary, "MIT", "1")


def test_models_of_one_distribution_have_a_summary_each(saved, tmp_path, monkeypatch):
    for folder in ("a_a", "b_b", "c_c"):
        tacenda.load(saved).save(tmp_path / folder)
    (tmp_path / "b_b" / "README.md").write_text("# with-card 1\n\nOf the  second kind.\n\nMore.\n")
    (tmp_path / "c_c" / "README.md").write_text("no title\n")
    points = "bare = a_a\nwith-card = b_b\nodd = c_c\n"
    list_installed(tmp_path, "both", points, monkeypatch, summary="Summary: Two.\n")
    summaries = {model.name: model.summary for model in by_name.available()}
    found = {name: summaries[name] for name in ("bare", "with-card", "odd")}
    assert found == {"bare": "Two.", "with-card": "Of the second kind.", "odd": "Two."}


def test_two_distributions_of_one_name_are_told_apart(site, saved, tmp_path, monkeypatch):
    Scale(np.array([3.0])).save(tmp_path / "other" / "other_folder")
    list_installed(tmp_path / "other", "other", "tiny-scale = other_folder\n", monkeypatch)
    with pytest.raises(ArtifactError, match="installed by other and tacenda-model-tiny-scale"):
        tacenda.load("tiny-scale")
    with pytest.warns(UserWarning, match=r"^other has a model 'tiny-scale' too"):
        package(saved, ABOUT, tmp_path / "again")


@pytest.mark.parametrize("target", ["../saved", "os:system", "a.b", "/etc", "missing"])
def test_an_entry_that_names_no_folder_of_its_own_is_left_out(tmp_path, monkeypatch, target):
    list_installed(tmp_path, "odd", f"odd-model = {target}\n", monkeypatch)
    assert "odd-model" not in [model.name for model in by_name.available()]


@pytest.mark.usefixtures("site")
def test_a_distribution_in_a_folder_of_another_name_disturbs_no_other(tmp_path, monkeypatch):
    list_installed(tmp_path, "odd", "odd-model = odd_folder\n", monkeypatch)
    (tmp_path / "odd-1.dist-info").rename(tmp_path / "even-1.dist-info")
    plugins.refresh()
    names = [model.name for model in by_name.available()]
    assert "tiny-scale" in names
    assert "odd-model" not in names


def test_an_editable_install_is_found_without_importing_it(saved, tmp_path, monkeypatch):
    source = tmp_path / "source"
    tacenda.load(saved).save(source / "mine_folder")
    (source / "mine_folder" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(source))
    list_installed(tmp_path / "site", "mine", "mine = mine_folder\n", monkeypatch)
    np.testing.assert_array_equal(tacenda.load("mine").factors, [1.0, 2.0])


def test_the_commands_make_a_wheel_and_list_what_is_installed(saved, site, tmp_path):
    run = CliRunner().invoke
    made = run(app, ["package", str(saved), "--name", "tiny", "--license", "MIT", "-o", "wheels"])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "wheels/tacenda_model_tiny-0.1.0-py3-none-any.whl").exists()
    listed = run(app, ["models"])
    assert listed.exit_code == 0
    (line,) = [line for line in listed.output.splitlines() if line.startswith("tiny-scale")]
    assert line.split()[1:3] == ["1.2.0", "CC-BY-SA-4.0"]
    assert line.endswith("Two factors.")


def test_every_string_survives_in_the_project_file(saved):
    text = "".join(map(chr, [*range(0x20), 0x7F, 0x85, 0x2028, 0x1F389])) + '"\\'
    project = render_pyproject(artifact.read(saved), replace(ABOUT, summary=text))
    assert tomllib.loads(project)["project"]["description"] == text
