"""What tests and scripts/check_all.py share; no test is in here.

Beside no folder that has a package's name: on a path, one would hide an editable install.
"""

from pathlib import Path

ROOT = Path(__file__).parents[3]
