"""The one place that holds the version."""

__version__ = "1.0.0rc1"
