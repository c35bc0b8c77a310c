"""Whether a plan is one stitched kernel, and what it leaves undone."""
