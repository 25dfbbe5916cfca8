"""The commands of `iopatterns`, one module each, and what they share.

Each module imports its dependencies inside the command, so that a measurement starts in less than 0.15 s.
"""
