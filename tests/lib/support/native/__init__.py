"""The pool in a process without Python."""
