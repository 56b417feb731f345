"""The demo shop: small real web servers on this machine, and visitors that send them real requests."""

from .errors import DemoError
from .fleet import Server, Shop
from .load import LoadReport, Progress, run_load

__all__ = ["DemoError", "LoadReport", "Progress", "Server", "Shop", "run_load"]
