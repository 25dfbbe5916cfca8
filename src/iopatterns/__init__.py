"""An executable report on SSD I/O access patterns."""

__version__ = "0.1.0"
