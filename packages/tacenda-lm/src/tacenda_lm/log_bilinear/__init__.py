"""The log-bilinear language models: words before, weighted by position, predict a vector for the next."""
