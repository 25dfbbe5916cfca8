"""Code that the Snakefile calls: cells and batches, notebooks, report, scorecard inputs, and the summary of a run."""
