"""Hidden Markov language models: perplexity, mixtures and studies of the slides."""
