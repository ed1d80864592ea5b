"""Helpers for tests on real services. `tests/` is on the path: import them as `support.<module>`."""
