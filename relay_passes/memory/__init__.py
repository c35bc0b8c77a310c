"""Where results live: over operands, and in one arena."""
