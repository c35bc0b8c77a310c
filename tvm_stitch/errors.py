"""The one error a user can cause: what was given, which rule it broke, what to do."""

from __future__ import annotations


class StitchError(Exception):
    """A user's mistake, told in one line: input, broken rule, remedy.

    The command line prints it and exits with 1; every other exception is a bug and keeps its
    traceback.
    """

    def __init__(self, given: object, rule: str, remedy: str) -> None:
        self.given, self.rule, self.remedy = str(given), rule, remedy
        super().__init__(_printable(" ".join(f"{given}: {rule}; {remedy}".split())))


def _printable(text: str) -> str:
    """Escape what would move the cursor or break the line, such as names in a broken model."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
