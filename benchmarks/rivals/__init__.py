"""What ELF is measured against: one small program each, run in an environment of its own (`.venv-bench`)."""
