"""Makes `python -m iopatterns` the command line."""

from iopatterns.cli import main

main()
