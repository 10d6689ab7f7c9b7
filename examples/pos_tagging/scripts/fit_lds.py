"""Learn token vectors from raw text: `tacenda embed fit`, in Python.

The text is tokenized already, with spaces between tokens, as scripts/convert.py writes it.
"""

from pathlib import Path
from typing import Annotated

import typer

from tacenda import Corpus
from tacenda_embeddings import LDS


def main(
    text: Annotated[Path, typer.Argument(help="Raw text, one sentence per line.")] = Path(
        "corpus/raw.txt"
    ),
    output: Annotated[Path, typer.Argument(help="Folder to save the model in.")] = Path(
        "assets/lds"
    ),
    n_states: Annotated[int, typer.Option(help="The vectors are three times as wide.")] = 100,
    max_vocabulary: Annotated[int, typer.Option(help="Types kept.")] = 20_000,
) -> None:
    corpus = Corpus.from_text(
        text, tokenizer="whitespace", max_vocabulary=max_vocabulary, digits=True, oov="classes"
    )
    model = LDS(n_states=n_states).fit(corpus)
    output.parent.mkdir(parents=True, exist_ok=True)
    model.save(output)
    print(f"{corpus.n_tokens:,} tokens, {len(corpus.vocabulary):,} types, saved in {output}")
    for before, after, _ in model.transition_pairs(n_pairs=3, n_words=5):
        print(f"  {' '.join(before)} -> {' '.join(after)}")


if __name__ == "__main__":
    typer.run(main)
