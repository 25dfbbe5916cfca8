"""Commands of `twin`, one module each, and the arguments that they share.

A module imports what its command needs only when the command runs, so that `twin` starts fast.
"""
