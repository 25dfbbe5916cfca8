"""Foundations without knowledge of drives or studies: errors, messages, files, units and YAML."""
