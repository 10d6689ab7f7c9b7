"""Operations of the log-bilinear language models: sums over contexts, softmax over trees, scores of streams."""
