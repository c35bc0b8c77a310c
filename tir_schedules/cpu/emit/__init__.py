"""From a plan to TensorIR."""
