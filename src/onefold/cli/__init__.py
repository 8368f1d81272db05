"""The command line: ``onefold tune``, ``predict``, ``plan``, ``report``, ``inspect`` and ``demo``."""

from onefold.cli.entry import main

__all__ = ["main"]
