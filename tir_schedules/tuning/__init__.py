"""What is tuned: kernels by what they compute, and their decisions as a MetaSchedule space."""
