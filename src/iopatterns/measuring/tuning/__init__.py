"""Settings of a drive: set, read back, recorded so that they can be restored."""
