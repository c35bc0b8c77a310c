"""Types that tensor cores multiply, and add up in float32."""

HALVES = ("float16", "bfloat16")
