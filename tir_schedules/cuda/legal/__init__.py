"""What decisions a kernel may run by: plans made of them, or the reason why not. No cost here."""
