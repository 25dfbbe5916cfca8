"""What is asked for: the configuration, checked, and the grids of studies, expanded to cells."""
