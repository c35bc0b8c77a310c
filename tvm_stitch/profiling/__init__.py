"""Side-by-side timing: each peer in a process of its own, stopped while another is measured."""
