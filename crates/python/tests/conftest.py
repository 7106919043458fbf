"""Pictures without a screen; privacy warnings are errors unless a test expects them."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
