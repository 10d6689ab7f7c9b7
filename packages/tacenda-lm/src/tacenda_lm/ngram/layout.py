"""The layout of a packed table of n-grams: which bits and words mean what.

The n-grams of each order are sorted by their words, so those that continue one n-gram are neighbours. Of each its last
word alone is kept, as in KenLM's trie (Heafield 2011, "KenLM: Faster and Smaller Language Model Queries"), in a record
of as many bits as are needed, from the lowest up:

    word       bits of the highest id; none for unigrams, where word i is record i
    log_prob   31: a float32 without its sign, which is never positive; or a code of ``prob_bits``
    backoff    a code, as back-offs have few distinct values (a float32 where they are many); none in the highest order
    near       where the n-grams that continue it begin, counted from where those of its block begin; none likewise

A block is 64 n-grams, and has one number: where the n-grams that continue its first one begin in the order above. In
blocks whose distances need more than ``near_bits`` the number is that of a list with all 64 places, marked by the
highest bit. The places where one record's continuations begin and the next one's begin are the range in which a word
after it is searched by halves. ``near_bits`` is chosen to make records and lists smallest.

A 5-gram among 40,000 words costs 16 + 31 bits, 5.9 bytes; a 4-gram with 2^17 distinct back-offs and 9 near bits 73 + 1
bits, 9.3 bytes (KenLM's trie: 5.9 and, with 2^25 5-grams, 13). With 8 bits for log-probabilities and back-offs these
are 3 and 5.3 bytes.

All lies in one array of 64-bit words, section after section: of each order the records (with one more at the end,
whose ``near`` ends the last range), the numbers of the blocks, the lists, the values that codes of back-offs and of
log-probabilities stand for (float32, two in a word). `LAYOUT` says what ``layout`` holds of each order; the rest
follows. A table may be a mapped file that nothing has read: what is found in it is never used as a place without being
held to the array's bounds (see ``lookup``), so the numbers of the layout are all that must be right for safety.
"""

from __future__ import annotations

import numpy as np

from tacenda.errors import ArtifactError
from tacenda_lm.ngram.counts import Int64

__all__ = ["ABOVE_ONE", "BLOCK", "LAYOUT", "MAX_ORDER", "check_layout", "sections"]

MAX_ORDER = 16  # the longest n-grams of any model
ABOVE_ONE = 1e-3  # a log-probability above 0 by more than rounding (a probability above one)
BLOCK = 64  # n-grams that share the number from which their near places count
LAYOUT = ("n-grams", "prob_bits", "backoff_bits", "near_bits", "lists", "backoffs")
"""Of each order: its n-grams, the bits of three fields, how many blocks have a list, distinct back-offs if coded."""

_LARGEST = 1 << 48  # n-grams of an order: more do not exist


def sections(layout: Int64) -> tuple[Int64, int]:
    """Return what ``lookup`` knows of each order, int64 (order, fields of ``lookup``), and the words of the data."""
    order, n_types = len(layout), int(layout[0, 0])
    shape = np.zeros((order, 12), np.int64)
    end = 0
    for n, (size, prob, backoff, near, lists, backoffs) in enumerate(layout.tolist()):
        word = (n_types - 1).bit_length() if n else 0
        width = word + prob + backoff + near
        inner = n < order - 1
        records = end
        blocks = records + -(-(size + inner) * width // 64) + 1  # a field is read from two words
        far = blocks + (size // BLOCK + 1 if inner else 0)
        values = far + lists * BLOCK
        probs = values + -(-backoffs // 2)
        end = probs + ((1 << prob) // 2 if prob < 31 else 0)
        shape[n] = (
            size,
            width,
            records * 64,
            word,
            prob,
            backoff,
            near,
            blocks,
            far,
            lists,
            values,
            probs,
        )
    return np.hstack([shape, layout[:, 5:6]]), end


def check_layout(layout: Int64, n_words: int, n_types: int) -> None:
    """Raise ArtifactError unless the sections lie in the data as they should."""
    order = len(layout)
    if not 1 <= order <= MAX_ORDER or layout[0, 0] != n_types:
        raise ArtifactError(
            f"the array 'ngrams.layout' tells of {order} orders and {layout[:1, 0]} types, where "
            f"there are at most {MAX_ORDER} orders, and {n_types} types"
        )
    size, prob, backoff, near, lists, backoffs = layout.T
    last = np.arange(order) == order - 1
    sound = (layout >= 0).all() and (size <= _LARGEST).all() and (near <= 48).all()
    sound = sound and (((prob >= 1) & (prob <= 16)) | (prob == 31)).all()
    sound = sound and (lists <= size // BLOCK + 1).all()
    # back-offs are float32, or codes of a list that is not empty
    coded = (backoff < 32) & (backoffs >= 1) & (backoffs <= np.int64(1) << np.minimum(backoff, 32))
    sound = sound and (last | coded | ((backoff == 32) & (backoffs == 0))).all()
    if not sound or layout[last][:, 2:].any() or sections(layout)[1] != n_words:
        raise ArtifactError(
            "the array 'ngrams.layout' does not fit 'ngrams.data': the model is damaged"
        )
