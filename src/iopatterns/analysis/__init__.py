"""What notebooks, claims and the report call: from tidy tables of executions to tables, figures and verdicts."""
