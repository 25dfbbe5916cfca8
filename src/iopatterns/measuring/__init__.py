"""Measuring a cell: the drive held, guarded, tuned and put back; fio run on it; the raw file kept."""
