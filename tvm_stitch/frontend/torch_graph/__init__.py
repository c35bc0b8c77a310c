"""What is done to the graph of a torch.export program before it is imported."""
