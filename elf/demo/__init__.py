"""The demo shop: small real web servers on this machine, and visitors that send them real requests."""

from elf.demo.errors import DemoError
from elf.demo.load.load import LoadReport, Progress, run_load
from elf.demo.shop.fleet import Server, Shop

__all__ = ["DemoError", "LoadReport", "Progress", "Server", "Shop", "run_load"]
