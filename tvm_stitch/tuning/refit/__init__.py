"""The evaluator's profile, fitted to what a log has measured."""
