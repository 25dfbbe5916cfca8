"""Interactive tools: try a workload, browse measurements, compare drives, measure a grid from the command line."""
