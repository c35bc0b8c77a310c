"""Command line of the model zoo: `python scripts/zoo.py --list`, `... NAME -o FILE.onnx`.

The zoo itself is the package beside this file, which `import zoo` finds first.
"""

from zoo.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
