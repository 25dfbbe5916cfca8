"""The commands of `iopatterns`, one module each, and what several commands share.

A module imports what its command needs only when the command runs, so that a measurement starts in under 0.15 s.
"""
