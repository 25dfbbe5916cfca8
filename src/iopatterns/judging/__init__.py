"""Compare the statements of a source with the measurements.

A source is a paper or data sheet. Its claims (statements) and its published values (numbers) are checked against the
measurements. Each claim and value gets a verdict, such as ``reproduced``. The scorecard lists and counts the verdicts.
"""
