"""The detector: from the kernel log of one node to the truth about its accelerators."""
