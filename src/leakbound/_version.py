"""Which code runs: its version, in one place, and since when."""

import time

__version__ = "0.1.0"
BEGAN = time.time()  # code whose file is changed later may not be what runs
