"""Time operators at the sizes of real models, whatever other tables lack, against peers.

python scripts/bench_operators.py               # docs/results/bench_operators.{json,md}
python scripts/bench_operators.py --names resize,pad --threads 1
"""

from __future__ import annotations

from bench_compute import Bars, run
from operator_rows import convolutions, movement, products, reductions

BARS = Bars(best=1.2, row=0.8, share=0.0)
CASES = [each for part in (convolutions, products, reductions, movement) for each in part.cases()]

if __name__ == "__main__":
    run("bench_operators", "Operators at real sizes", __doc__.splitlines()[0], CASES, BARS)
