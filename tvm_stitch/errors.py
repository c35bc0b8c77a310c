"""The one error a user can cause: what was given, which rule it broke, what to do."""

from __future__ import annotations


class StitchError(Exception):
    """A user's mistake, told in one line: input, broken rule, remedy.

    The command line prints it and exits with 1; every other exception is a bug and keeps its
    traceback.
    """

    def __init__(self, given: object, rule: str, remedy: str) -> None:
        self.given, self.rule, self.remedy = str(given), rule, remedy
        super().__init__(" ".join(f"{given}: {rule}; {remedy}".split()))
