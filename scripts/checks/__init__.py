"""The sections of check_all.py, each case in a process that may die without the rest."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The packages of this tree, not of an installation, and what its tests share.
PATHS = [str(ROOT), str(ROOT / "tests/lib")]
sys.path[:0] = PATHS
