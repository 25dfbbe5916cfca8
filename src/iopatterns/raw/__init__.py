"""The format of raw files, of their metadata files, and of archives of both."""
