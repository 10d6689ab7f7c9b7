"""The same models as plain loops over dictionaries of tuples, from the papers' equations."""

import math
from collections import Counter, defaultdict

FALLBACK = [0.0, 0.5, 1.0, 1.5]


def ngram_counts(sentences, order):
    """Counter of n-grams by order; <s> is context only."""
    counts = [Counter() for _ in range(order + 1)]
    for words in sentences:
        marked = ["<s>", *words, "</s>"]
        for n in range(1, order + 1):
            for i in range(len(marked) - n + 1):
                counts[n][tuple(marked[i : i + n])] += 1
    del counts[1][("<s>",)]
    return counts


def adjusted(counts, order):
    """Chen and Goodman's counts: left extensions below the highest order, unless <s> comes first."""
    found = [None] * (order + 1)
    found[order] = dict(counts[order])
    for n in range(1, order):
        before = defaultdict(set)
        for gram in counts[n + 1]:
            before[gram[1:]].add(gram[0])
        found[n] = {
            gram: count if gram[0] == "<s>" else len(before[gram])
            for gram, count in counts[n].items()
        }
    return found


def discounts(counts, interpolated=True):
    """As lmplz (``StatCollector::CalculateDiscounts``): t_1, t_2, t_3 must be there, and D(k) be at most k."""
    t = Counter(counts.values())
    if all(t[k] for k in (1, 2, 3)) and (t[4] or interpolated):
        y = t[1] / (t[1] + 2 * t[2])
        found = [0.0] + [k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3)]
        if all(0 < found[k] <= k for k in (1, 2, 3)):
            return found
    return FALLBACK


class KneserNeyOracle:
    """Interpolated modified Kneser-Ney, or its back-off form; no pruning."""

    def __init__(self, sentences, order, vocabulary, interpolated=True):
        self.vocabulary, self.order, self.interpolated = vocabulary, order, interpolated
        self.counts = adjusted(ngram_counts(sentences, order), order)
        self.discounts = [
            None,
            *(discounts(self.counts[n], interpolated or n == 1) for n in range(1, order + 1)),
        ]
        self.following = defaultdict(dict)
        for n in range(1, order + 1):
            for gram, count in self.counts[n].items():
                if count:
                    self.following[gram[:-1]][gram[-1]] = count
        self.known = {}

    def prob(self, word, context):
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        if (word, context) not in self.known:
            self.known[word, context] = self._prob(word, context)
        return self.known[word, context]

    def _prob(self, word, context):
        lower = self.prob(word, context[1:]) if context else 1 / len(self.vocabulary)
        seen = self.following.get(context, {})
        total = sum(seen.values())
        if not total:
            return lower
        d = self.discounts[len(context) + 1]
        count = seen.get(word, 0)
        own = (count - d[min(count, 3)]) / total
        free = sum(d[min(c, 3)] for c in seen.values()) / total
        if self.interpolated or not context:
            return own + free * lower
        others = 1 - sum(self.prob(w, context[1:]) for w in seen)
        if others <= 1e-9:
            return own / (1 - free)
        return own if count else free * lower / others

    def log_probs(self, sentence):
        marked = ["<s>", *sentence, "</s>"]
        return [math.log(self.prob(w, marked[:i])) for i, w in enumerate(marked) if i]
