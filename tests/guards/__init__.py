"""Guards: rules of the repository that a machine can check. Each one proves that it can fail."""
