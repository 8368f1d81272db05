"""``python -m onefold``: the command line."""

import sys

from onefold.cli import main

if __name__ == "__main__":
    sys.exit(main())
