"""`python -m tvm_stitch.cli`."""

import sys

from tvm_stitch.cli import main

sys.exit(main())
