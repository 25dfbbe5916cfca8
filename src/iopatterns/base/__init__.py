"""What everything else stands on: errors, messages, files, units, YAML; it knows nothing of drives or studies."""
