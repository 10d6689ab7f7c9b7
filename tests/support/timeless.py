"""No test depends on how long an example takes: the machine may be busy."""

from hypothesis import settings

settings.register_profile("tacenda", deadline=None)
settings.load_profile("tacenda")
