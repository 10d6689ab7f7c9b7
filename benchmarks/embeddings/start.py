"""EM from subspace identification against EM from a random start: the paper's Figure 2.

    python -m benchmarks.embeddings.start [--seeds 0-2]

Likelihood gain over the model without dynamics, in nats per token, after every EM iteration, as a
JSON file of results and a picture (benchmarks/results/embeddings-start.png).
"""
