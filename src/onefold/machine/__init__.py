"""The machine: threads as a budget, free memory, measured speed, files written whole."""
