"""Arguments that several tests of the command line start from."""

SMALL = ["--simple", "--gammas", "2^-3:2^1:3", "--alphas", "2^-5:2^1:3"]
TUNE = ["tune", "t.csv", "--target", "kind", "--drop", "amount", "site", "mass", "--id", "who"]
