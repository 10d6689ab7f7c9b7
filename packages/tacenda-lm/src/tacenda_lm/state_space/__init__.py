"""State-space language models: a linear state, a softmax over the next token (Siivola and Honkela)."""
