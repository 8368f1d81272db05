"""Multilevel circulant matrices: the tables and the figure of ding2011 and edwards2013.

    python -m benchmarks.circulant [--quick] [--large] [--splits N] [--only PART ...]

The parts are ``scaling`` (edwards2013 Table I and figure 1; ``--large`` goes on to 2^22),
``ding2011`` (Table 2), ``edwards2013`` (Table II) and ``study`` (which order and spacing are best
when the final model is the circulant one too). Official partitions are used where they are stored,
random ones of the same sizes elsewhere, at most ``--splits`` of either.
"""

from __future__ import annotations

import argparse

from benchmarks import circulant_errors, circulant_scaling

PARTS = ("scaling", "ding2011", "edwards2013", "study")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, two splits")
    parser.add_argument("--large", action="store_true", help="sizes up to 2^22")
    parser.add_argument("--splits", type=int, default=20, help="most splits per set")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    splits = 2 if arguments.quick else arguments.splits
    if "scaling" in arguments.only:
        largest = 16 if arguments.quick else 22 if arguments.large else 20
        circulant_scaling.run(largest)
    if "ding2011" in arguments.only:
        circulant_errors.ding2011(splits)
    if "edwards2013" in arguments.only:
        circulant_errors.edwards2013(splits)
    if "study" in arguments.only:
        circulant_errors.study(min(splits, 10))


if __name__ == "__main__":
    main()
