"""What says that decisions can't be run."""


class Illegal(Exception):
    """What decisions ask for can't be done; caught where a plan is made of them."""
