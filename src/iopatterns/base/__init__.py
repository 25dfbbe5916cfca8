"""Foundations of the package: errors, messages, files, units and YAML.

The modules here import no other part of iopatterns, and know nothing about drives or studies.
"""
