"""Tools for writing operations: declared arguments, compilation, arrays, tensors, threads, machine vectors."""
