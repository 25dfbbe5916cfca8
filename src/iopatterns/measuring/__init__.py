"""Measure cells: lock, check and tune a drive, run fio, and store the raw files."""
