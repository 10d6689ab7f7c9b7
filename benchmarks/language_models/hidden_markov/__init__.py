"""Hidden Markov language models: speed against the log-space formulation, perplexity, the slides' studies."""
