"""How surprising is each word? From a document to bits of surprisal per token, and a picture.

    python examples/surprisal/surprisal.py [DOCUMENT] [--output surprisal-output] [--lines N] [--text FILE]
        [--model kneser_ney]

Fits a language model to raw text, scores the document with it in spaCy, and writes surprisal.html (the text,
in which a warmer background marks a more surprising token) and surprisal.tsv. The raw text is --text, or
Wikipedia's good and featured articles in the folder that TACENDA_DATA names, or else text in an invented language. The
fitted pipeline is saved in the output folder and used again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import materials
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from tacenda.errors import TacendaError
from tacenda_lm.spacy import render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("document", type=Path, nargs="?", help="text to score (default: a sample)")
    parser.add_argument("--output", type=Path, default=Path("surprisal-output"))
    parser.add_argument("--text", type=Path, help="raw text to fit on, one paragraph per line")
    parser.add_argument("--lines", type=int, help="lines of raw text to fit on")
    parser.add_argument("--model", default="kneser_ney", help="or hlbl, vlhmm, or a plugin's")
    parser.add_argument(
        "--order", type=int, default=5, help="words that an n-gram spans (kneser_ney)"
    )
    parser.add_argument(
        "--max-bits", type=float, default=16.0, help="highest surprisal on the color scale"
    )
    options = parser.parse_args()
    try:
        run(options)
    except (TacendaError, OSError) as error:
        sys.exit(f"error: {error}")
    except UnicodeError as error:
        sys.exit(f"error: {options.document} is not UTF-8 text: {error}")


def run(options: argparse.Namespace) -> None:
    material = materials.find(options.text, options.lines)
    text = material.sample
    if options.document is not None:
        text = options.document.read_text(encoding="utf-8").strip()
    options.output.mkdir(parents=True, exist_ok=True)
    settings = {"order": options.order} if options.model == "kneser_ney" else {}
    nlp = pipeline(material, options.model, settings, options.output)
    doc = nlp(text)
    title = "A sample" if options.document is None else options.document.name
    page = render(doc, page=True, title=title, max_bits=options.max_bits, jupyter=False)
    picture, table = options.output / "surprisal.html", options.output / "surprisal.tsv"
    picture.write_text(str(page), encoding="utf-8")
    table.write_text(rows(doc), encoding="utf-8")
    report(doc)
    print(f"\nthe picture is {picture}, all tokens are in {table}")


def pipeline(
    material: materials.Material, model: str, settings: dict[str, int], output: Path
) -> Language:
    """Return the fitted pipeline, from an earlier run if that used the same text."""
    chosen = "".join(f"-{name}-{value}" for name, value in settings.items())
    folder = output / f"pipeline-{material.name}-{model}{chosen}"
    if folder.exists():
        print(f"using the fitted language model in {folder}")
        return spacy.load(folder)
    print(f"fitting a language model to {material.title}")
    nlp = spacy.blank("en")
    nlp.max_length = 10_000_000
    nlp.add_pipe("sentencizer")
    scorer = nlp.add_pipe("lm_scorer", config={"context": "sentence"})
    scorer.initialize(
        nlp=nlp,
        corpus=material.lines(),
        split="sentences",
        model=model,
        settings=settings,
        min_count=2,
    )
    # rename it when it is complete
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    nlp.to_disk(unfinished)
    unfinished.rename(folder)
    return nlp


def rows(doc: Doc) -> str:
    """Return one line per token: start, text, bits, natural log-probability, whether it is unknown."""
    lines = ["start\ttoken\tsurprisal\tlogprob\toov"]
    for token in doc:
        if not token.is_space:
            scores = f"{token._.surprisal:.4f}\t{token._.lm_logprob:.4f}\t{int(token._.lm_oov)}"
            lines.append(f"{token.idx}\t{token.text}\t{scores}")
    return "\n".join(lines) + "\n"


def report(doc: Doc) -> None:
    """Print the first sentence word by word, and the metrics of the document."""
    print("\nbits of surprisal, first sentence:")
    for token in next(iter(doc.sents), doc[:0]):
        if not token.is_space:
            bar = "#" * round(token._.surprisal)
            unknown = "  (not in the vocabulary)" if token._.lm_oov else ""
            print(f"  {token._.surprisal:6.2f}  {token.text:<16} {bar}{unknown}")
    if doc._.perplexity is not None:  # None for a document without words
        print(f"\nperplexity {doc._.perplexity:.1f}, {doc._.lm_bpc:.2f} bits per character")


if __name__ == "__main__":
    main()
