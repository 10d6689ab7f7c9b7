"""Hidden Markov language models."""
