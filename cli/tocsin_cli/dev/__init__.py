"""`tocsin dev`: the whole of tocsin on one machine, without Docker, root or a system service."""
