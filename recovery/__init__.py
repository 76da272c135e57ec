"""Recovery: replaces the right machine, in order, within a budget, or says why not."""
