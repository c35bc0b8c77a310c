"""The fusion explorer: candidate patterns by approximate dynamic programming, plans by beam search.

It sees a graph of numbered ops and a judge that scores sets of them; it knows nothing of tensors.
"""

from .assembly import assemble
from .candidates import candidates
from .dag import Dag, Judge, Pattern
from .improve import improve

__all__ = ["Dag", "Judge", "Pattern", "assemble", "candidates", "improve"]
