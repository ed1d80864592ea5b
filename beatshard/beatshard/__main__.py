"""`python -m beatshard`: one node, configured by the environment."""

import logging
import sys

from beatshard.node import run
from tocsin.settings import load

logging.basicConfig(stream=sys.stderr, level="INFO", format="%(levelname)s %(name)s: %(message)s")
sys.exit(run(load()))
