"""Code that the Snakefile calls.

It plans and starts a run, executes notebooks, typesets the report, and summarises the results.
"""
