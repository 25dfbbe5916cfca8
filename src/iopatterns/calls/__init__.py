"""Traces of system calls."""
