"""An executable report on SSD I/O access patterns."""

from importlib.metadata import version

__version__ = version("iopatterns")
