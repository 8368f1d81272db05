"""Settings for every test."""

import os

from hypothesis import settings

# Tests never look at the clock: a busy machine must not fail them. Continuous integration draws the same
# examples every time; elsewhere each run draws new ones.
settings.register_profile("onefold", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("onefold")
