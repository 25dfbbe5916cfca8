"""The configuration of a project, and the expansion of studies to cells.

A study is a file in config/studies that lists the levels of factors, such as block sizes. A cell is one configuration:
a drive, its settings and a workload.
"""
