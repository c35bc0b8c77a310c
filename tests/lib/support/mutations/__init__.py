"""Functions of ours made wrong, which `verify` and a test must find."""
