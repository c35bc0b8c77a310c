def bound_indices(graph, given):
    return {}
