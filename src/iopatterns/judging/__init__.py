"""Compares what a source states with what was measured: claims, their checks, classes and the scorecard."""
