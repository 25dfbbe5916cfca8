"""Foundations of the package: errors, messages, files, units and YAML.

This package knows nothing about drives or studies.
"""
