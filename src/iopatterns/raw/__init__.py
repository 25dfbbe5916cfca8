"""Raw files as a format: which cell they are of, their sidecars, and archives of them."""
