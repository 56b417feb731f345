"""The demo: a shop of small real web servers, visitors that send them real requests, agents beside them, and jobs on
those. Command-line options and a console come in; text on the console goes out. May import `elf.client` and
`elf.signing`.
"""

from elf.demo.errors import DemoError
from elf.demo.load.load import LoadReport, Progress, run_load
from elf.demo.shop.fleet import Server, Shop

__all__ = ["DemoError", "LoadReport", "Progress", "Server", "Shop", "run_load"]
