"""Code that the Snakefile calls.

The modules plan and start a run, execute notebooks, typeset the report, and summarise the results.
"""
