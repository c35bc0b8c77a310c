"""Inputs that find mistakes: of the model, adversarial, poisoned memory."""
