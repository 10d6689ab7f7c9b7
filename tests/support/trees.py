"""The operations on trees and contexts, called with every array as an argument of its own."""

from tacenda.kernels import contexts, trees


def tree_softmax(vectors, words, codes, node_vectors, node_biases):
    return trees.tree_softmax(vectors, words, codes, trees.Nodes(node_vectors, node_biases))


def tree_softmax_step(vectors, words, codes, q, b, grad, sums, bias_sums, rate, threads=1):
    nodes, own = trees.Nodes(q, b), trees.NodeSums(sums, bias_sums)
    return trees.tree_softmax_step(vectors, words, codes, nodes, grad, own, rate, threads)


def context_sum(table, ids, offsets, starts, ends, context, tails=None, threads=1):
    text = contexts.Spans(ids, offsets, starts, ends)
    return contexts.context_sum(table, text, context, tails, threads)


def context_sum_backward(table, ids, offsets, starts, ends, context, before, grad, threads=1):
    text = contexts.Spans(ids, offsets, starts, ends)
    return contexts.context_sum_backward(table, text, context, before, grad, threads)
