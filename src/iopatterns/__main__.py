"""Entry point of `python -m iopatterns`."""

from iopatterns.cli import main

main()
