"""The commands of `iopatterns`, one module each."""
