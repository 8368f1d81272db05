"""Tools for whoever changes the code; run as `python -m tests.tools.NAME`."""
