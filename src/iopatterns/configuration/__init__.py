"""The configuration of the project, and the expansion of grids to cells."""
