"""The chaos harness: a cluster of processes, a workload, faults, and a judge that believes the witness alone."""
