"""What the Snakefile calls: the plan of a run, notebooks executed, the report typeset, the run summed up."""
