"""Options of the commands that compare drives: the quantity and the level of confidence."""

import click

QUANTITY = click.option(
    "--of",
    default="bandwidth",
    show_default=True,
    metavar="QUANTITY",
    help="Quantity to compare, such as iops, latency or 'clat p99'.",
)
CONFIDENCE = click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0.5, 0.999),
    help="Confidence level of the intervals.",
)
