"""The documents and the decisions: what a job is, which states a run has, when to retry, what to catch up."""
