"""Compare the statements of a source with the measurements.

A source is a paper or data sheet. Its claims and published values are checked and classified, and the scorecard counts
the verdicts.
"""
