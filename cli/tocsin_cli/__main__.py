"""`python -m tocsin_cli` is `tocsin`."""

from tocsin_cli.main import main

main()
