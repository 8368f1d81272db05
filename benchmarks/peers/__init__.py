"""Other libraries beside this one: the same rows, each library in an environment of its own."""
