"""A package, so that a `tests` that another distribution installed does not take its name."""
