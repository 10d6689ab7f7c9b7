"""A recurrent network with a softmax output, started at random or from a linear dynamical system."""
