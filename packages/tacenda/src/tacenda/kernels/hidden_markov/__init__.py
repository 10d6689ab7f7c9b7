"""Operations of the hidden Markov models: passes over blocks of states, and the softmaxes of their parameters."""
