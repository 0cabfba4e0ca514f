"""What a person sees: output with --json and --quiet, progress, help, and finished runs by name."""
