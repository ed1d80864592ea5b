"""The store: one module per aggregate; the hot statements are named and kept together.

Lock order, everywhere: partitions, then triggers, then jobs, then runs. A transaction that needs two of them
takes them in this order, so no two transactions wait for each other.
"""
