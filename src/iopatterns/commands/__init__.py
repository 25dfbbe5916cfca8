"""The commands of `iopatterns`, one module each, and what they share.

Each module imports its dependencies inside the command, so that a measurement does not wait for imports that it does
not need.
"""
