"""Whole pipelines on an LDS: every component alone and on one tok2vec, written, trained, saved, sourced and frozen."""

import gc
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from spacy.cli.debug_model import debug_model
from spacy.cli.evaluate import evaluate
from spacy.cli.find_threshold import find_threshold
from spacy.cli.package import package
from spacy.cli.train import train
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.pretrain import pretrain
from thinc.api import Config

import tacenda
from support.pipelines import reload
from support.processes import output_of
from tacenda.artifact.folder import write
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.estimator import Estimator
from tacenda_embeddings import LDS
from tacenda_embeddings.spacy.configuration import choose_language, pipeline_config

#: word, tag, universal tag, morphology, lemma, head, relation
SENTENCES = [
    [
        ("dogs", "NNS", "NOUN", "Number=Plur", "dog", 1, "nsubj"),
        ("saw", "VBD", "VERB", "Tense=Past", "see", 1, "ROOT"),
        ("Kim", "NNP", "PROPN", "Number=Sing", "Kim", 1, "obj"),
        (".", ".", "PUNCT", "", ".", 1, "punct"),
    ],
    [
        ("the", "DT", "DET", "", "the", 1, "det"),
        ("saw", "NN", "NOUN", "Number=Sing", "saw", 2, "nsubj"),
        ("cut", "VBD", "VERB", "Tense=Past", "cut", 2, "ROOT"),
        ("trees", "NNS", "NOUN", "Number=Plur", "tree", 2, "obj"),
        (".", ".", "PUNCT", "", ".", 2, "punct"),
    ],
    [
        ("Kim", "NNP", "PROPN", "Number=Sing", "Kim", 1, "nsubj"),
        ("cut", "VBD", "VERB", "Tense=Past", "cut", 1, "ROOT"),
        ("the", "DT", "DET", "", "the", 3, "det"),
        ("trees", "NNS", "NOUN", "Number=Plur", "tree", 1, "obj"),
        (".", ".", "PUNCT", "", ".", 1, "punct"),
    ],
]
ENTITIES = [["O", "O", "U-PERSON", "O"], ["O"] * 5, ["U-PERSON", "O", "O", "O", "O"]]
SCORES = {
    "tagger": "tag_acc",
    "morphologizer": "morph_acc",
    "trainable_lemmatizer": "lemma_acc",
    "parser": "dep_uas",
    "ner": "ents_f",
    "textcat": "cats_score",
}
ALL = list(SCORES)


@pytest.fixture(scope="module")
def model():
    sentences = [[row[0] for row in rows] for rows in SENTENCES] * 20
    sentences += [["dogs", "and", "trees", str(i)] for i in range(10)]
    corpus = tacenda.Corpus.from_sentences(sentences, oov="classes")
    return LDS(n_states=4, kappa=5.0, subspace_iterations=1, full_iterations=1).fit(corpus)


@pytest.fixture(scope="module")
def lds(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "lds"
    model.save(folder)
    return str(folder)


def reference(vocab, i):
    words, tags, pos, morphs, lemmas, heads, deps = zip(*SENTENCES[i], strict=True)
    doc = Doc(
        vocab, words=words, tags=tags, pos=pos, morphs=morphs, lemmas=lemmas, heads=heads, deps=deps,
        ents=[tag.replace("U-", "B-") for tag in ENTITIES[i]],
    )  # fmt: skip
    doc.cats = {"past": float(i == 0), "present": float(i != 0)}
    return doc


def examples(nlp, times=3):
    """So often that labels are frequent enough for the lemmatizer and the parser."""
    golds = [reference(nlp.vocab, i) for i in range(3)]
    return [Example(Doc(nlp.vocab, words=[t.text for t in gold]), gold) for gold in golds * times]


def small(config):
    """The same with small tables, and with labels that are seen three times."""
    text = config.to_str().replace("rows = [5000, 1000, 2500, 2500]", "rows = [50, 50, 50, 50]")
    text = text.replace("min_action_freq = 30", "min_action_freq = 1")
    return Config().from_str(text.replace("length = 262144", "length = 512"), interpolate=False)


def trained(config, steps=25, annotates=("lds_embeddings",)):
    spacy.util.fix_random_seed(0)
    nlp = spacy.util.load_model_from_config(small(config))
    gold = examples(nlp)
    optimizer = nlp.initialize(lambda: gold)
    for step in range(steps):
        optimizer.learn_rate = 0.02 * (1 - step / steps)  # it ends where it has learned by heart
        nlp.update(gold, sgd=optimizer, drop=0.0, annotates=list(annotates))
    return nlp


def annotations(nlp):
    docs = [nlp(Doc(nlp.vocab, words=[row[0] for row in rows])) for rows in SENTENCES]
    return [
        (
            [(t.tag_, t.pos_, str(t.morph), t.lemma_, t.head.i, t.dep_) for t in doc],
            [(e.start, e.end, e.label_) for e in doc.ents],
            {label: round(score, 5) for label, score in doc.cats.items()},
        )
        for doc in docs
    ]


@pytest.mark.parametrize("cnn_layers", [0, 1])
@pytest.mark.parametrize("component", ALL)
def test_each_component_alone_learns_and_is_the_same_from_disk(
    lds, tmp_path, component, cnn_layers
):
    nlp = trained(pipeline_config([component], lds, shared=False, cnn_layers=cnn_layers))
    assert nlp.pipe_names == ["lds_embeddings", component]
    assert nlp.evaluate(examples(nlp, 1))[SCORES[component]] > 0.9
    assert annotations(reload(nlp, tmp_path / "pipeline")) == annotations(nlp)


@pytest.mark.parametrize("cnn_layers", [0, 1])
@pytest.mark.parametrize("target", ["lds", "tensor"])
def test_all_components_learn_on_one_tok2vec(lds, tmp_path, cnn_layers, target):
    nlp = trained(pipeline_config(ALL, lds, cnn_layers=cnn_layers, target=target), steps=80)
    assert nlp.pipe_names == ["lds_embeddings", "tok2vec", *ALL]
    found = nlp.evaluate(examples(nlp, 1))
    for score in SCORES.values():
        assert found[score] > 0.9, score
    assert annotations(reload(nlp, tmp_path / "pipeline")) == annotations(nlp)


def test_the_written_configuration_has_everything_spacy_wants(lds):
    config = pipeline_config(
        ["tagger", "parser", "senter", "sentencizer"], lds, output="own_context"
    )
    assert spacy.util.load_model_from_config(config, auto_fill=False).config == config
    assert config["components"]["lds_embeddings"]["output"] == "own_context"
    assert config["components"]["lds_embeddings"]["target"] == "lds"
    assert config["components"]["senter"]["model"]["tok2vec"]["upstream"] == "tok2vec"
    assert config["training"]["annotating_components"] == ["lds_embeddings"]
    assert "model" not in config["components"]["sentencizer"]


@pytest.mark.parametrize(
    ("components", "settings", "match"),
    [
        ([], {}, "name at least one"),
        (["tagger", "tagger"], {}, "named twice"),
        (["tagger", "postagger"], {}, r"^[^\n]*for postagger that .* span_finder,[^\n]*$"),
        (["transformer", "tagger"], {}, "no configuration for transformer.* one of tagger, "),
        (["lds_embeddings", "tok2vec"], {}, "name at least one"),
        (["tagger"], {"output": "nonsense"}, "own_past_future.*'nonsense'"),
        (["sentencizer"], {}, "no component of sentencizer"),
        (["tagger"], {"cnn_layers": -1}, "cnn_layers is -1"),
        (["tagger"], {"cnn_layers": 1.5}, "cnn_layers is 1.5"),
        (["tagger"], {"language": "qq"}, "'qq'"),
        (["varembed_embeddings", "tagger"], {}, "varembed_embeddings is the component of another"),
    ],
)
def test_what_cannot_be_written_is_named(lds, components, settings, match):
    with pytest.raises(ConfigurationError, match=match):
        pipeline_config(components, lds, **settings)


@pytest.mark.parametrize("shared", [True, False])
def test_embedding_components_may_be_named_as_the_pipeline_shows_them(lds, shared):
    written = pipeline_config(["tagger", "ner"], lds, shared=shared)
    for named in ("lds_embeddings", "token_embeddings", "tok2vec"):
        assert pipeline_config([named, "tagger", "ner"], Path(lds), shared=shared) == written
    assert pipeline_config("tagger, ner", lds, shared=shared) == written


def test_the_component_that_is_named_tells_the_embedder_of_a_missing_model(tmp_path):
    config = pipeline_config("varembed_embeddings,tagger", tmp_path / "later")
    assert list(config["components"]) == ["token_embeddings", "tok2vec", "tagger"]
    assert config["components"]["token_embeddings"]["embedder"] == "varembed"
    assert config["components"]["token_embeddings"]["output"] is None
    with pytest.raises(ConfigurationError, match="varembed_embeddings is the component of another"):
        pipeline_config("lds_embeddings,varembed_embeddings,tagger", tmp_path / "later")


def test_another_embedder_is_hosted_by_the_component_for_any(toy, tmp_path):
    toy.save(tmp_path / "toy")
    config = pipeline_config(["tagger"], str(tmp_path / "toy"), target="toys")
    nlp = trained(config, steps=1, annotates=["token_embeddings"])
    assert nlp.pipe_names == ["token_embeddings", "tok2vec", "tagger"]
    assert nlp.get_pipe("token_embeddings").embedder == "toy"
    [expected] = toy.transform([["the", "cat"]])
    np.testing.assert_array_equal(nlp("the cat")._.toys, expected)
    with pytest.raises(ConfigurationError, match="'toy' has only one output"):
        pipeline_config(["tagger"], str(tmp_path / "toy"), output="own")


class _LanguageModel(Estimator):
    kind, name = "language_models", "nothing"

    def config_dict(self):
        return {}

    def arrays(self):
        return {"none": np.zeros(1, "f")}


def test_models_of_another_kind_are_refused(lds, tmp_path):
    write(tmp_path / "lm", _LanguageModel().to_artifact())
    lm = str(tmp_path / "lm")
    for models in ({"lds": lm}, {"lds": lds, "vectors": lm}):
        with pytest.raises(
            ConfigurationError, match="lm is a model of the kind language_models, not"
        ):
            pipeline_config(["tagger"], **models)
    with pytest.raises(ConfigurationError, match=r"'lds' has no vectors of single words"):
        pipeline_config(["tagger"], lds, vectors=lds)


def test_a_damaged_model_is_no_model_that_will_come(lds, tmp_path):
    shutil.copytree(lds, tmp_path / "lds")
    (tmp_path / "lds" / "model.json").write_text("{", encoding="utf8")
    with pytest.raises(ArtifactError, match="damaged"):
        pipeline_config(["tagger"], str(tmp_path / "lds"))


# -- spacy train ---------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path):
    blank = spacy.blank("en")
    DocBin(docs=[reference(blank.vocab, i) for i in (0, 1, 2) * 3], store_user_data=True).to_disk(
        tmp_path / "corpus.spacy"
    )
    return tmp_path / "corpus.spacy"


@pytest.mark.parametrize(
    ("fitted", "cnn_layers", "output", "expected"),
    [
        ("own_past_future", 1, None, "own_context"),
        ("own_past_future", 0, None, None),
        ("own_past_future", 2, "mean", "mean"),
        ("own_past_future", 1, "own_past_future", "own_past_future"),
        ("weighted_mean", 1, None, None),
        (None, 1, None, "own_context"),
        (None, 0, None, None),
    ],
)
def test_a_convolution_reads_own_context_unless_another_output_was_asked_for(
    model, tmp_path, fitted, cnn_layers, output, expected
):
    if fitted is not None:
        model.with_output(fitted).save(tmp_path / "lds")
    found = pipeline_config(["tagger"], str(tmp_path / "lds"), cnn_layers=cnn_layers, output=output)
    assert found["components"]["lds_embeddings"]["output"] == expected


def spacy_train(config, corpus, output, **overrides):
    path = output.with_suffix(".cfg")
    small(config).to_disk(path)
    paths = {"paths.train": str(corpus), "paths.dev": str(corpus)}
    steps = {"training.max_steps": 4, "training.eval_frequency": 2}
    train(path, output, overrides={**paths, **steps, **overrides})
    return spacy.load(output / "model-last")


def test_several_trainings_in_one_process_do_not_disturb_each_other(lds, model, corpus, tmp_path):
    """One after another: of other models, targets and layers, and the first again."""
    model.with_output("own_context").save(tmp_path / "narrow")
    wide = pipeline_config(["tagger"], lds, output="own_past_future")
    first = spacy_train(wide, corpus, tmp_path / "first")
    narrow = pipeline_config(["tagger", "ner"], str(tmp_path / "narrow"), shared=False)
    other = spacy_train(narrow, corpus, tmp_path / "other")
    again = spacy_train(wide, corpus, tmp_path / "again")
    assert other.get_pipe("lds_embeddings").width == 8
    assert first.get_pipe("lds_embeddings").width == 12
    assert annotations(first) == annotations(again)
    weights = [nlp.get_pipe("tok2vec").model.to_bytes() for nlp in (first, again)]
    assert weights[0] == weights[1]


@pytest.fixture
def base(lds, corpus, tmp_path):
    """A trained pipeline to take components from."""
    config = pipeline_config(["tagger", "parser"], lds, output="own_past_future")
    spacy_train(config, corpus, tmp_path / "base")
    return str(tmp_path / "base" / "model-last")


def with_sourced(config, names, source, **more):
    for name in names:
        config["components"][name] = {"source": source, **more}
    config["initialize"]["components"].pop("lds_embeddings", None)
    return config


def test_a_component_is_added_to_frozen_and_sourced_ones(lds, base, corpus, tmp_path):
    sourced = ["lds_embeddings", "tok2vec", "tagger"]
    config = with_sourced(pipeline_config(["tagger", "ner"], lds), sourced, base)
    config["training"]["frozen_components"] = sourced
    config["training"]["annotating_components"] = ["lds_embeddings", "tok2vec"]
    nlp = spacy_train(config, corpus, tmp_path / "more")
    before = spacy.load(base)
    for name in ("tok2vec", "tagger"):
        assert nlp.get_pipe(name).model.to_bytes() == before.get_pipe(name).model.to_bytes()
    doc = nlp(Doc(nlp.vocab, words=["dogs", "saw", "Kim", "."]))
    np.testing.assert_array_equal(doc._.lds, before(doc.text)._.lds)


def test_a_new_layer_learns_the_width_of_sourced_vectors(lds, base, corpus, tmp_path):
    """No component is initialized that says how wide they are, and the pipeline they come from is gone."""
    config = pipeline_config(["ner"], lds, shared=False, target="lds")
    config = with_sourced(config, ["lds_embeddings"], base)
    gc.collect()
    nlp = spacy_train(config, corpus, tmp_path / "more")
    widths = [
        node.get_dim("nO") for node in nlp.get_pipe("ner").model.walk() if node.name == "doc_tensor"
    ]
    assert widths == [12]


def test_a_sourced_component_can_take_a_copy_of_the_shared_layers_along(
    lds, base, corpus, tmp_path
):
    config = pipeline_config(["tagger", "ner"], lds, shared=False, target="lds")
    config = with_sourced(config, ["lds_embeddings"], base)
    config = with_sourced(config, ["tagger"], base, replace_listeners=["model.tok2vec"])
    config["training"]["frozen_components"] = ["tagger"]
    nlp = spacy_train(config, corpus, tmp_path / "more")
    assert nlp.pipe_names == ["lds_embeddings", "tagger", "ner"]
    tags = [[row[0] for row in tokens] for tokens, *_ in annotations(nlp)]
    assert tags == [[row[0] for row in tokens] for tokens, *_ in annotations(spacy.load(base))]


def test_an_annotating_component_hears_its_error_without_the_vectors(lds, corpus, tmp_path):
    config = pipeline_config(["tagger"], lds)
    config["training"]["annotating_components"] = []
    with pytest.raises(ConfigurationError, match="annotating_components"):
        spacy_train(config, corpus, tmp_path / "without")


def test_a_trained_pipeline_needs_no_model_beside_it(model, corpus, tmp_path):
    model.save(tmp_path / "lds")
    nlp = spacy_train(pipeline_config(["tagger"], str(tmp_path / "lds")), corpus, tmp_path / "all")
    shutil.rmtree(tmp_path / "lds")
    assert annotations(spacy.load(tmp_path / "all" / "model-best")) == annotations(nlp)


def test_a_frozen_embedding_component_gets_its_model_all_the_same(lds, corpus, tmp_path):
    """It trains nothing, and spaCy does not initialize what is frozen."""
    for shared in (True, False):
        config = pipeline_config(["tagger"], lds, shared=shared)
        config["training"]["frozen_components"] = ["lds_embeddings"]
        nlp = spacy_train(config, corpus, tmp_path / f"frozen-{shared}")
        assert nlp.get_pipe("lds_embeddings").width == 8


# -- spaCy's other commands ----------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_spacy_debugs_the_models_of_a_written_configuration(lds, corpus, shared, capsys):
    config = small(pipeline_config(["tagger", "ner"], lds, shared=shared))
    config["paths"].update(train=str(corpus), dev=str(corpus))
    for component in ["tok2vec", "tagger", "ner"] if shared else ["tagger", "ner"]:
        nlp = spacy.util.load_model_from_config(config)
        options = nlp.config.interpolate()
        training = spacy.util.registry.resolve(options["training"], schema=ConfigSchemaTraining)
        debug_model(options, training, nlp, nlp.get_pipe(component))
        assert "model looks good" in capsys.readouterr().out


def test_spacy_pretrains_the_layers_of_a_written_configuration(lds, corpus, write_file, tmp_path):
    config = small(pipeline_config(["tagger"], lds))
    defaults = spacy.util.load_config(spacy.language.DEFAULT_CONFIG_PRETRAIN_PATH)
    config = Config().from_str(defaults.merge(config).to_str(), interpolate=False)
    text = write_file("raw.jsonl", '{"text": "dogs saw Kim"}\n{"text": "the saw cut trees"}\n')
    config["paths"]["raw_text"] = str(text)
    config["pretraining"].update(max_epochs=1, component="tok2vec")
    config["pretraining"]["objective"].update(maxout_pieces=2, hidden_size=8)
    (tmp_path / "pretrained").mkdir()
    pretrain(config.interpolate(), tmp_path / "pretrained")
    config["paths"]["init_tok2vec"] = str(tmp_path / "pretrained" / "model-last.bin")
    assert spacy_train(config, corpus, tmp_path / "trained")("dogs saw Kim")[0].tag_


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("name", "exclusive"), [("textcat", True), ("textcat_multilabel", False)])
def test_text_categorizers_average_three_and_take_texts_without_words(lds, name, exclusive, shared):
    nlp = spacy.util.load_model_from_config(pipeline_config([name], lds, shared=shared))
    cats = {"a": 0.0, "b": 1.0, "c": 0.0}
    examples = [
        Example.from_dict(nlp.make_doc(text), {"cats": cats}) for text in ("dogs saw Kim", "")
    ]
    nlp.initialize(lambda: examples)
    nlp.update(examples, annotates=["lds_embeddings"])
    for doc in nlp.pipe(["dogs saw Kim", "", "the saw"]):
        assert set(doc.cats) == {"a", "b", "c"}
        assert (sum(doc.cats.values()) == pytest.approx(1, abs=1e-5)) == exclusive


def test_a_trained_pipeline_is_evaluated_timed_packaged_and_assembled(lds, corpus, tmp_path):
    config = pipeline_config(["tagger", "textcat"], lds)
    nlp = spacy_train(config, corpus, tmp_path / "all")
    folder = tmp_path / "all" / "model-last"
    assert "tag_acc" in evaluate(str(folder), corpus)
    find_threshold(
        str(folder), corpus, "textcat", "threshold", "cats_macro_f", n_trials=3, silent=True
    )
    output_of("-m", "spacy", "benchmark", "speed", folder, corpus, "--batches", 30, "--warmup", 0)
    (tmp_path / "packed").mkdir()
    package(folder, tmp_path / "packed", create_sdist=False)
    [meta] = (tmp_path / "packed").glob("*/meta.json")
    assert any("tacenda-embeddings" in each for each in srsly.read_json(meta)["requirements"])
    for name in nlp.pipe_names:
        config["components"][name] = {"source": str(folder)}
    config["initialize"]["components"] = {}
    config.to_disk(tmp_path / "sourced.cfg")
    output_of("-m", "spacy", "assemble", tmp_path / "sourced.cfg", tmp_path / "assembled")
    assert annotations(spacy.load(tmp_path / "assembled")) == annotations(nlp)


def test_layers_read_documents_that_the_component_has_not_seen(lds, corpus, tmp_path):
    """As ``nlp.rehearse`` gives them."""
    nlp = spacy_train(pipeline_config(["tagger"], lds, shared=False), corpus, tmp_path / "all")
    doc = Doc(nlp.vocab, words=["dogs", "saw", "Kim", "."])
    [found] = nlp.get_pipe("tagger").model.predict([doc])
    [expected] = nlp.get_pipe("tagger").model.predict([nlp.get_pipe("lds_embeddings")(doc.copy())])
    np.testing.assert_array_equal(found, expected)


# -- the command ---------------------------------------------------------------------------------------


def test_the_command_writes_what_spacy_debugs_without_complaint(run, lds, corpus, tmp_path):
    config = tmp_path / "config.cfg"
    arguments = ("init-config", config, "--lds", lds, "--pipeline", "tagger,ner", "--cnn-layers", 0)
    assert "python -m spacy train" in run.well(*arguments)[1]
    assert "there is a file" in run.refusal(*arguments)
    run.well(*arguments, "--force", "--no-shared", "--model-output", "own_context")
    paths = ["--paths.train", str(corpus), "--paths.dev", str(corpus)]
    output_of("-m", "spacy", "debug", "config", config, *paths)
    assert run.refusal("init-config", "-", "--lds", lds, "--pipeline", "nonsense")
    assert "[components.tok2vec]" in run.well("init-config", "-", "--lds", lds)[0]


def test_the_command_says_what_is_not_there_and_writes_all_the_same(run, lds, tmp_path):
    config = tmp_path / "config.cfg"
    _, err = run.well("init-config", config, "--lds", tmp_path / "lds", "--vectors", "my-lsd")
    absent, unknown, *_ = err.splitlines()
    assert absent.startswith(f"--lds {tmp_path / 'lds'} does not exist yet")
    assert "--vectors my-lsd does not exist yet" in unknown
    assert "no installed model 'my-lsd'" in unknown
    assert Config().from_disk(config)["paths"]["words"] == "my-lsd"
    assert "not there" not in run("init-config", "-", "--lds", lds)[2]


def test_a_pipeline_has_the_language_that_the_text_of_its_models_was_tokenized_for(
    run, model, tmp_path
):
    def fitted(folder, tokenizer):
        copy = LDS.from_artifact(model.to_artifact())
        copy.fitted_on = {**copy.fitted_on, "tokenizer": tokenizer}
        copy.save(tmp_path / folder)
        return tmp_path / folder

    german = fitted("german", "spacy:de")
    out, err = run.well("init-config", "-", "--lds", german)
    assert Config().from_str(out)["nlp"]["lang"] == "de"
    assert err == "--language de, because the text of the model was tokenized for it\n"
    # an English tokenizer, or one that is for no language
    for folder, tokenizer in (("english", "words"), ("spaces", "whitespace")):
        out, err = run.well("init-config", "-", "--lds", fitted(folder, tokenizer))
        assert err == ""
        assert Config().from_str(out)["nlp"]["lang"] == "en"
    for folder, tokenizer, own in (("german", "spacy:de", "de"), ("english", "words", "en")):
        lds = str(tmp_path / folder)
        with pytest.warns(UserWarning, match=f"'{tokenizer}' split.*--language {own}$") as found:
            config = pipeline_config(["tagger"], lds, language="fr")
        assert len(found) == 1
        assert config["nlp"]["lang"] == "fr"
    joined = LDS.from_artifact(model.to_artifact())
    joined.fitted_on = {"lds": {"tokenizer": "spacy:en"}, "words": {"tokenizer": "spacy:de"}}
    joined.save(tmp_path / "joined")
    for language, chosen, other in ((None, "en", "de"), ("de", "de", "en")):
        with pytest.warns(UserWarning, match=f"'spacy:{other}' split.*--language {other}$"):
            assert choose_language(language, [str(tmp_path / "joined")]) == chosen


def test_a_package_that_a_language_needs_is_named_in_one_sentence(run, lds, monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    err = run.refusal("init-config", "-", "--lds", lds, "--language", "zh")
    assert "cannot be made here for the language 'zh': Jieba not installed" in err


def test_a_file_in_a_folder_that_is_not_there_is_refused(run, lds, tmp_path):
    err = run.refusal("init-config", tmp_path / "none" / "config.cfg", "--lds", lds)
    assert f"there is no folder {tmp_path / 'none'}" in err


def test_outputs_are_a_setting_of_the_commands(run, lds, model, tmp_path):
    (tmp_path / "text.txt").write_text("dogs saw Kim .\n", encoding="utf8")
    np_file = tmp_path / "vectors.npz"
    arguments = ("apply", lds, tmp_path / "text.txt", "--output", np_file)
    run.well(*arguments, "--model-output", "own_context")
    [expected] = model.transform([["dogs", "saw", "Kim", "."]], output="own_context")
    np.testing.assert_allclose(np.load(np_file)["vectors"], expected, atol=1e-6)
    err = run.refusal(*arguments, "--force", "--model-output", "nonsense")
    assert "own_past_future" in err
