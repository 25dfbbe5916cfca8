"""The configuration of the project, with checks, and the expansion of grids to cells."""
