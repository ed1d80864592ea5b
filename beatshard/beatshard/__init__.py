"""The sharded beat: partitions, fencing, firing, publishing, reaping."""
