"""Tools for writing operations: compilation, arrays, tensors, threads, machine vectors."""
