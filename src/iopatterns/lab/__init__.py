"""Interactive tools for measurements and simulations.

The tools measure a grid of workloads from the command line, compare drives, draw finished measurements, and try
workloads on simulated drives.
"""
