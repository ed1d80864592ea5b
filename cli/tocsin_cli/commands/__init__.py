"""One module per command; each has a Typer `app`. Imports that cost time stand inside the functions."""
