"""Tables, statistics and figures of measured repetitions."""
