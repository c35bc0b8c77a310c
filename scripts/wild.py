"""Command line of the wild catalogue: `python scripts/wild.py --list`, `... --check NAME`.

The catalogue itself is the package beside this file, which `import wild` finds first.
"""

from wild.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
