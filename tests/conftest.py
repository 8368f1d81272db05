"""Settings for every test."""

from hypothesis import settings

# Tests never look at the clock: a busy machine must not fail them.
settings.register_profile("onefold", deadline=None)
settings.load_profile("onefold")
