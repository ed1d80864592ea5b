"""Tests of the command line against recorded API answers, served over real HTTP."""
