"""The command line `tocsin`, and the development server."""
