"""Tables, statistics and figures of measured repetitions.

A repetition is one run of fio for a cell. A cell is one configuration: a drive, its settings and a workload.
"""
