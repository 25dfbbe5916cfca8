"""The commands of `twin`, one module each, and what several commands share.

A module imports what its command needs only when the command runs.
"""
