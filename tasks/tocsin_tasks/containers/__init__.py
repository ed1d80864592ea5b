"""Containers: started, watched, adopted and put away, on one Docker engine per worker process.

A container is named after its run, so the engine itself refuses a second one for the same run, whichever attempt
asks and however late. docs/docker-jobs.md tells the life of a container; the modules, from the engine upwards:
`engine`, `spec`, `placing`, `images`, `ending`, `watch`, `janitor`, `runner`.
"""
