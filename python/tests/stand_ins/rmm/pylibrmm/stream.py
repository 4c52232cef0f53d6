"""A stream of the simulated device."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from simulated_libraries import Driver


class Stream:
    driver = None

    def __init__(self):
        Stream.driver = Stream.driver or Driver()
        self.handle = self.driver.made("cuStreamCreate", 1)

    def synchronize(self):
        self.driver.enter()
        self.driver.call("cuStreamSynchronize", self.handle)
