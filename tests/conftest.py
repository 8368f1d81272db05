"""Settings for every test."""

import os

from hypothesis import settings

# Tests never look at the clock: a busy machine must not fail them. `make test` draws the same examples
# every time; `make explore` draws new ones, and what it finds becomes a plain test.
settings.register_profile("onefold", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("explore" if os.environ.get("ONEFOLD_EXPLORE") else "onefold")
