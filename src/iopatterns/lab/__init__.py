"""Interactive tools around the measurements.

They measure a grid from the command line, compare drives, browse measurements, and try workloads on simulated drives.
"""
