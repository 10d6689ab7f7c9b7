"""Fit vectors to unlabeled text, and train a tagger with few labels on them.

    python examples/fit_your_own/fit_your_own.py [--output demo-output] [--labelled 250] [--states 200] ...

Fits a linear dynamical system (LDS) to raw text, trains a stock spaCy tagger on a few hundred
labelled sentences with and without its token vectors, and tags a sentence. The data are found in the
folder that TACENDA_DATA names; without it, text of an invented language is generated. What is finished
is kept in the output folder and used again, so an interrupted run loses only the step it was in.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import materials
import spacy
import taggers
from spacy.tokens import Doc

import tacenda
from tacenda.errors import TacendaError
from tacenda_embeddings import LDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--labelled", type=int, default=250, help="labeled sentences to train on")
    parser.add_argument("--tested", type=int, help="sentences to test on (default: all)")
    parser.add_argument("--lines", type=int, help="lines of raw text to fit on (default: all)")
    parser.add_argument("--states", type=int, default=200, help="dimension of the latent state")
    options = parser.parse_args()
    start = time.perf_counter()
    try:
        run(options)
    except TacendaError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(f"\ninterrupted; run it again: what is finished lies in {options.output}")
    print(f"\n{time.perf_counter() - start:.0f} seconds in total")


def run(options: argparse.Namespace) -> None:
    say("reading and tokenizing the text")
    material = materials.find(
        options.output / "corpus", options.labelled, options.tested, options.lines
    )
    print(f"  {material.text}: {material.corpus.n_tokens:,} tokens")
    artifact = options.output / "lds"
    fit(material, options.states, artifact)
    pipelines = []
    for name in taggers.LAYERS:
        say(f"training a tagger on {len(material.train)} sentences of {material.labels}: {name}")
        pipelines.append(taggers.train(name, artifact, material.train))
    pipelines[-1].to_disk(options.output / "tagger")
    say("testing the taggers")
    report(pipelines, material)
    print(USAGE.format(artifact=artifact, tagger=options.output / "tagger"))


def fit(material: materials.Material, states: int, artifact: Path) -> None:
    """Fit and save the LDS, unless it has been fitted to the same text with the same size."""
    facts: dict[str, Any] = {
        "demo_text": material.text,
        "demo_tokens": material.corpus.n_tokens,
        "demo_states": states,
    }
    if (artifact / "model.json").exists():
        known = tacenda.artifact.read(artifact).fitted_on
        if facts.items() <= known.items():
            say(f"using the fitted LDS: {artifact}")
            return
    say(f"fitting an LDS with {states} states to it")
    start = time.perf_counter()
    model = LDS(n_states=states).fit(material.corpus)
    model.fitted_on |= facts
    model.save(artifact)
    print(f"  {time.perf_counter() - start:.0f} s")


def report(pipelines: list[spacy.Language], material: materials.Material) -> None:
    accuracies = [taggers.accuracy(nlp, material.test) for nlp in pipelines]
    speeds = taggers.speeds(pipelines, material.test)
    default_errors = 100 - accuracies[1]
    print(f"\n{'tagger':40}{'accuracy':>10}{'errors':>9}{'words/s':>10}")
    for name, accuracy, speed in zip(taggers.LAYERS, accuracies, speeds, strict=True):
        errors = (100 - accuracy) / default_errors - 1 if default_errors else 0.0
        print(f"{name:40}{accuracy:9.2f}%{errors:+9.0%}{speed:10,.0f}")
    n_words = sum(len(words) for words, _ in material.test)
    print(f"(universal part-of-speech tags, {n_words:,} words of test text, one training run each;")
    print(" errors: compared with spaCy's default)\n")
    words, gold = material.example
    answers = {"gold tags": gold}
    for name, nlp in zip(taggers.LAYERS, pipelines, strict=True):
        answers[name] = [token.tag_ for token in nlp(Doc(nlp.vocab, words=words))]
    for name, tags in answers.items():
        tagged = " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
        print(f"{name}:\n  {tagged}")


def say(step: str) -> None:
    print(f"* {step} ...", flush=True)


USAGE = """
The fitted LDS is in {artifact}, and the tagger that uses it in {tagger}. In your own pipeline:

    nlp = spacy.blank("en")                     # or any pipeline whose components train on Doc.tensor
    nlp.add_pipe("lds_embeddings").initialize(artifact="{artifact}")
    vectors = nlp("Some text.").tensor          # (tokens, width) float32

or the trained tagger: spacy.load("{tagger}")"""


if __name__ == "__main__":
    main()
