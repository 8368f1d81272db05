"""Facts about a fit and their words: measures with standard errors, criteria, columns, slices."""
