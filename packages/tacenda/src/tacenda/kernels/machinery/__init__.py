"""What the operations are written with: compilation, arrays, tensors, threads, machine vectors."""
