"""Words of TensorIR that the templates of all targets write with."""
