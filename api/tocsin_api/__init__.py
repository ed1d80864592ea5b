"""The HTTP API: jobs, runs and schedules for people and programs."""
