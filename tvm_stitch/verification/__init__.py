"""Compare a compiled model, kernel by kernel, with its operators one by one."""
