"""Tests of `tocsin dev`, as the process that a developer starts."""
