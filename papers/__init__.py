"""Procedures of the papers that the package improves on, kept to compare with."""
