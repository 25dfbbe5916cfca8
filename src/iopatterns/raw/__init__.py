"""The formats of raw files, of their metadata files, and of archives of both.

A raw file stores what fio printed in one repetition of a cell. A cell is one configuration: a drive, its settings and a
workload.
"""
