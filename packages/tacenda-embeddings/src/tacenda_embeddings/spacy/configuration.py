"""Configurations for ``spacy train`` of whole pipelines that read the vectors of an LDS.

The components, the training and the scores come from spaCy's quickstart. Its convolutional network is replaced by a
layer that mixes hashed word features, static vectors if there are any, and the vectors of the embedding component, with
optional layers of convolution on top. Text categorizers take the mean and the maximum of the vectors of a text.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from spacy import util
from spacy.cli.init_config import init_config
from thinc.api import Config

from tacenda import artifact as artifacts
from tacenda.artifact import by_name
from tacenda.errors import ArtifactError, ConfigurationError, check_whole, warn
from tacenda.estimator import resolve
from tacenda.tokenizers import spacy_config
from tacenda_embeddings.spacy.linear_algebra import NUMPY_BLAS
from tacenda_embeddings.spacy.vectors import NAME, USE, load_word_model
from tacenda_embeddings.text_vectors import with_output

WIDTH = 96
#: Factories that host one embedder; ``token_embeddings`` hosts any.
_OF_ONE_EMBEDDER = {"lds": "lds_embeddings", "varembed": "varembed_embeddings"}
#: Components of spaCy that read a token-to-vector layer.
_READERS = (
    "tagger, morphologizer, trainable_lemmatizer, senter, parser, ner, span_finder, spancat, spancat_singlelabel, "
    "textcat, textcat_multilabel, entity_linker"
)
#: The default output of an LDS, and the output that is as good under a convolution.
_DEFAULT_OUTPUT, _OUTPUT_UNDER_CONVOLUTION = "own_past_future", "own_context"
#: The key of a token-to-vector layer in a model's configuration.
_LAYER = "tok2vec"


def pipeline_config(
    components: Sequence[str] | str,
    lds: str | os.PathLike[str],
    *,
    vectors: str | os.PathLike[str] | None = None,
    language: str | None = None,
    cnn_layers: int = 1,
    shared: bool = True,
    target: str | None = None,
    output: str | None = None,
) -> Config:
    """Return a complete and valid configuration.

    Parameters
    ----------
    components
        Factories in order, such as ``["tagger", "parser", "ner"]`` or ``"tagger,parser,ner"``; at least one must read
        vectors. The embedding component and ``tok2vec`` are added before them, and need not be named.
    lds
        Folder or name of a fitted LDS or another embedder. Training reads it; it need not exist yet. A missing one is a
        VarEmbed if ``components`` include varembed_embeddings, else an LDS.
    vectors
        Folder or name of a fitted SumEmbed or VarEmbed. Its vectors become the word vectors of the pipeline, and
        another input of the layers. None for no word vectors.
    language
        spaCy's code of a language. None means the language of the tokenizer of the raw text: see `choose_language`.
    cnn_layers
        Convolution layers over the mixed features; with 0, only the LDS provides context.
    shared
        Whether all components listen to one ``tok2vec``, or each has its own layers.
    target
        Where the vectors go: ``"tensor"`` or the name of an extension. None means ``"lds"`` with a shared ``tok2vec``,
        which overwrites ``Doc.tensor``, and ``"tensor"`` without one.
    output
        Output of the model. None means that of the fitted model, except that convolution layers get own_context of an
        LDS fitted with own_past_future: they distinguish left from right themselves, and fewer columns are faster. An
        LDS that does not exist yet is assumed to have own_past_future, its default.

    Raises
    ------
    ConfigurationError
        No component reads vectors, a component is named twice or unknown to spaCy, another embedding component is
        named than the model needs, ``cnn_layers`` is not a whole number of at least 0, or an existing model is of the
        wrong kind or has no such output.
    ArtifactError
        An existing model cannot be read.
    """
    lds, vectors = os.fspath(lds), None if vectors is None else os.fspath(vectors)
    check_whole("cnn_layers", cnn_layers, 0)
    listed = components.split(",") if isinstance(components, str) else components
    listed = [name.strip() for name in listed]
    embedder, factory, settings = _choose_component(lds, listed, output, cnn_layers)
    added = ("", _OF_ONE_EMBEDDER.get(embedder), "token_embeddings", "tok2vec")
    names = [name for name in listed if name not in added]
    for name in names:
        if name in _OF_ONE_EMBEDDER.values():
            raise ConfigurationError(
                f"{name} is the component of another embedder than {embedder!r}: leave it out, or give its own model"
            )
    if not names:
        raise ConfigurationError("name at least one component, such as tagger")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"a component is named twice: {', '.join(names)}")
    target = target or ("lds" if shared else "tensor")
    models = [lds]
    if vectors is not None:
        models.append(vectors)
        if explain_missing(vectors) is None:
            load_word_model(vectors)
    config: dict[str, Any] = _ask_spacy(names, choose_language(language, models))
    layer = _build_layer(target, vectors is not None, cnn_layers)
    # not paths.vectors, which spaCy expects to be a pipeline with vectors
    config["paths"] = {**config["paths"], "vectors": None, "lds": lds}
    config["initialize"]["components"] = {factory: {"artifact": "${paths.lds}"}}
    if vectors is not None:
        config["paths"]["words"] = vectors
        config["nlp"]["vectors"] = {"@vectors": NAME}
        config["initialize"]["before_init"] = {"@callbacks": USE, "source": "${paths.words}"}
    config["components"] = {
        factory: {"factory": factory, "target": target, **settings},
        **_replace_layers(names, config["components"], layer, shared),
    }
    config["nlp"]["pipeline"] = list(config["components"])
    config["nlp"]["after_pipeline_creation"] = {"@callbacks": NUMPY_BLAS}
    config["training"]["annotating_components"] = [factory]
    return _complete(config)


def _complete(config: dict[str, Any]) -> Config:
    """Return the configuration with all defaults, validated. Raises ConfigurationError if a package is missing."""
    try:
        filled = util.load_model_from_config(Config(config), auto_fill=True).config
    except ImportError as error:  # of a package that splits the text of the language
        cause = " ".join(str(error).split())
        raise ConfigurationError(
            f"the pipeline cannot be made here for the language {config['nlp']['lang']!r}: {cause}"
        ) from error
    checked = util.load_model_from_config(filled, validate=True).config
    return Config(checked, section_order=util.CONFIG_SECTION_ORDER)


def _replace_layers(
    names: Sequence[str], sections: dict[str, Any], layer: dict[str, Any], shared: bool
) -> dict[str, Any]:
    """Return the sections of components with ``layer`` as their token-to-vector layer.

    If it is shared, they listen to it in a ``tok2vec``, whose section comes first. Raises ConfigurationError if none of
    them has such a layer.
    """
    parts: dict[str, Any] = {}
    if shared:
        parts["tok2vec"] = {"factory": "tok2vec", "model": layer}
        layer = {
            "@architectures": "spacy.Tok2VecListener.v1",
            "width": WIDTH,
            "upstream": "tok2vec",
        }
    n_readers = 0
    for name in names:
        parts[name] = sections[name]
        if name in ("textcat", "textcat_multilabel"):
            parts[name]["model"]["@architectures"] = "tacenda.TextCatAverage.v1"
        for section in _find_layers(parts[name].get("model", {})):
            section[_LAYER] = layer
            n_readers += 1
    if not n_readers:
        raise ConfigurationError(
            f"no component of {', '.join(names)} has a token-to-vector layer that could read the vectors: "
            "name at least one that is trained on tokens, such as tagger"
        )
    return parts


def explain_missing(model: str) -> str | None:
    """Return why there is no model in a folder or of a name; None if there is one."""
    try:
        folder = by_name.locate(model)
    except ArtifactError as error:
        return str(error)
    return None if os.path.lexists(folder) else f"there is no folder {folder}"


def choose_language(language: str | None, models: Sequence[str]) -> str:
    """Return ``language`` or, if it is None, the language of the tokenizer of a saved model's text, else "en".

    Warns of a model whose text was tokenized for another language.
    """
    languages: dict[tuple[str, str], str | None] = {}
    for model in models:
        facts = artifacts.read(model).fitted_on if explain_missing(model) is None else {}
        # a joined model has the facts of each of its models
        for part in (facts, *facts.values()):
            if isinstance(part, dict) and isinstance(part.get("tokenizer"), str):
                languages[model, part["tokenizer"]] = _find_language(part["tokenizer"])
    chosen = language or next(filter(None, languages.values()), "en")
    for (model, tokenizer), model_language in languages.items():
        if model_language not in (None, chosen):
            warn(
                f"{model} was fitted to text that the tokenizer {tokenizer!r} split, and a pipeline of the "
                f"language {chosen!r} splits text differently: fit it again with --language {chosen}, or make the "
                f"pipeline with --language {model_language}"
            )
    return chosen


def _find_language(tokenizer: str) -> str | None:
    """Return the language of a tokenizer; None if its name does not include it."""
    if tokenizer == "words":
        return "en"
    match = re.match(r"spacy:(\w+)", tokenizer)
    return None if match is None else match[1]


def _choose_component(
    lds: str, listed: Sequence[str], output: str | None, cnn_layers: int
) -> tuple[str, str, dict[str, Any]]:
    """Return the embedder of a model, the factory that hosts it, and its settings about the model and the output.

    The ``listed`` components say the embedder of a missing model.
    """
    named = [embedder for embedder, component in _OF_ONE_EMBEDDER.items() if component in listed]
    embedder, model_output = (*named, "lds")[0], _DEFAULT_OUTPUT
    if explain_missing(lds) is None:
        artifact = artifacts.read(lds)
        if artifact.kind != "embedders":
            raise ConfigurationError(
                f"{lds} is a model of the kind {artifact.kind}, not token embeddings"
            )
        if output is not None:
            with_output(resolve(artifact), output)
        embedder = artifact.name
        if embedder == "lds":
            model_output = artifact.config["settings"].get("output")
    if embedder != "lds":
        return embedder, "token_embeddings", {"embedder": embedder, "output": output}
    if output is None and cnn_layers and model_output == _DEFAULT_OUTPUT:
        output = _OUTPUT_UNDER_CONVOLUTION
    return embedder, "lds_embeddings", {"output": output}


def _ask_spacy(names: list[str], language: str) -> Config:
    """Return spaCy's own configuration of these components."""
    try:
        # its constructor registers spaCy's own factories
        known = list(filter(util.get_lang_class(language)().has_factory, names))
        base = init_config(lang=language, pipeline=known, optimize="accuracy", silent=True)
    except (ImportError, ValueError, SystemExit) as error:
        cause = " ".join(str(error).split())
        raise ConfigurationError(
            f"spaCy cannot configure {', '.join(names)} for the language {language!r}: {cause}"
        ) from error
    unknown = [name for name in names if name not in base["components"]]
    if unknown:
        raise ConfigurationError(
            f"spaCy has no configuration for {', '.join(unknown)} that reads token vectors: leave it out, or use one "
            f"of {_READERS}"
        )
    return Config(base).merge(spacy_config(language))


def _build_layer(target: str, static: bool, cnn_layers: int) -> dict[str, Any]:
    """Return the layer from documents to vectors of `WIDTH` columns."""
    hashed = {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": WIDTH,
        "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [5000, 1000, 2500, 2500],
        "include_static_vectors": static,
    }
    embeds = {"hash": hashed, "lds": {"@architectures": "tacenda.DocTensor.v1", "source": target}}
    embed = {"@architectures": "tacenda.ConcatEmbed.v1", "width": WIDTH, "embeds": embeds}
    if not cnn_layers:
        return embed
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": WIDTH,
        "depth": cnn_layers,
        "window_size": 1,
        "maxout_pieces": 3,
    }
    return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}


def _find_layers(model: Any) -> Iterator[dict[str, Any]]:
    """Yield every section of a model's configuration that has a token-to-vector layer."""
    if isinstance(model, dict):
        if _LAYER in model:
            yield model
        for key, section in model.items():
            if key != _LAYER:
                yield from _find_layers(section)
