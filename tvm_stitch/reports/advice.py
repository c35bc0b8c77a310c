"""Is stitching worth it for a model? Told from the cost model, before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from relay_passes.graph.fusion_plan import Forecast

# One standard deviation of predicted over measured times, as a factor (docs/results/predicted.md);
# products and convolutions are predicted from their multiply-adds alone.
_OFF, _REST_OFF = 1.4, 2.0
_WORTH = 1.05


@dataclass(frozen=True)
class Advice:
    """`gain`: predicted time of one kernel an op over the plan's, between `low` and `high`."""

    kernels_apart: int
    kernels: int
    apart_ms: float
    together_ms: float
    memory_share: float
    gain: float
    low: float
    high: float
    opaque: int

    @classmethod
    def of(cls, forecasts: list[Forecast], kernels_apart: int, kernels: int) -> Advice:
        """Return the advice for a model whose graphs have these forecasts."""
        apart, together, rest = (
            sum(getattr(f, name) for f in forecasts) for name in ("apart", "together", "rest")
        )
        gains = [
            _gain(apart, together * off, rest * rest_off)
            for off, rest_off in ((1.0, 1.0), (_OFF, _REST_OFF), (1 / _OFF, 1 / _REST_OFF))
        ]
        return cls(
            kernels_apart,
            kernels,
            (apart + rest) / 1e6,
            (together + rest) / 1e6,
            apart / (apart + rest) if apart + rest else 0.0,
            *gains,
            sum(f.opaque for f in forecasts),
        )

    @property
    def verdict(self) -> str:
        if self.low >= _WORTH:
            return "worth it"
        if self.high < _WORTH:
            return "not worth it: too little of the time is in memory-intensive ops"
        return "in doubt: the interval has no gain at its lower end; measure with tvm-stitch bench"

    def __str__(self) -> str:
        lines = [
            f"one kernel an op: {self.kernels_apart} kernels, predicted {self.apart_ms:.3f} ms, "
            f"{self.memory_share:.0%} of it in memory-intensive ops",
            f"stitched: {self.kernels} kernels, predicted {self.together_ms:.3f} ms, "
            f"{self.gain:.2f} times as fast (between {self.low:.2f} and {self.high:.2f})",
            f"stitching is {self.verdict}",
        ]
        if self.opaque:
            lines.append(f"{self.opaque} ops are not in these figures: nothing is known of them")
        return "\n".join(lines)


def _gain(apart: float, together: float, rest: float) -> float:
    return (apart + rest) / (together + rest) if together + rest else 1.0
