"""The policy: default decisions of a kernel."""
