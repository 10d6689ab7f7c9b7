"""examples/pipeline: its commands one after another, on a few sentences of an invented language."""

import json
import re
import shutil
from pathlib import Path

import spacy
import srsly

from support.processes import run_here

EXAMPLE = Path(__file__).parents[1] / "examples" / "pipeline"
SMALL = {
    "source": "synthetic",
    "n_train": "40",
    "raw_tokens": "5000",
    "n_states": "5",
    "fit_vectors": "--set width=8 --set advanced.n_morphemes=200",
}
SHORT = "--training.max_steps 2 --training.eval_frequency 2"


def commands():
    """The commands of the workflow in their order, with small settings."""
    project = srsly.read_yaml(EXAMPLE / "project.yml")
    variables = {**project["vars"], **SMALL}
    scripts = {each["name"]: each["script"] for each in project["commands"]}
    for step in project["workflows"]["all"]:
        for script in scripts[step]:
            line = re.sub(r"\$\{vars\.(\w+)\}", lambda found: str(variables[found[1]]), script)
            yield step, f"{line} {SHORT}" if "spacy train" in line else line


def test_the_project_goes_from_raw_text_to_a_package(tmp_path, monkeypatch):
    folder = tmp_path / "pipeline"
    built = ("assets", "corpus", "metrics", "packages", "training", "treebank.cfg")
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(*built))
    monkeypatch.chdir(folder)
    (folder / "metrics").mkdir()
    (folder / "packages").mkdir()
    for step, line in commands():
        run_here(*line.split()[1:], *(("--build", "none") if step == "package" else ()))
    nlp = spacy.load(folder / "training" / "pipeline" / "model-best")
    assert nlp.pipe_names[0] == "lds_embeddings"
    assert nlp.pipe_names[-1] == "ner"
    doc = nlp("Pin sut mylibyrkestivet .")
    assert all(token.tag_ for token in doc)
    assert doc.cats
    scores = json.loads((folder / "metrics" / "treebank.json").read_text(encoding="utf8"))
    assert {"tag_acc", "morph_acc", "lemma_acc", "dep_las", "cats_score"} <= set(scores)
    metadata = json.loads(next(folder.glob("packages/*/meta.json")).read_text(encoding="utf8"))
    assert any(each.startswith("tacenda-embeddings") for each in metadata["requirements"])


def test_every_step_says_what_it_needs_and_makes():
    project = srsly.read_yaml(EXAMPLE / "project.yml")
    made = set()
    steps = {each["name"]: each for each in project["commands"]}
    for name in project["workflows"]["all"]:
        for needed in steps[name].get("deps", ()):
            assert needed in made or (EXAMPLE / needed).exists(), f"{name} needs {needed}"
        made.update(steps[name].get("outputs", ()))
