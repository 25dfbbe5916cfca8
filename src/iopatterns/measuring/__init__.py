"""Measure cells: lock, check and tune a drive, run fio, and store the raw files.

A cell is one configuration: a drive, its settings and a workload. A raw file is fio's JSON output.
"""
