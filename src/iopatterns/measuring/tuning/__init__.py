"""Drive settings: read, set, recorded in a journal, and restored."""
