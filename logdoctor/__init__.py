"""Says what an LLM inference server's log means: what came up, what is wrong, why, and what to change.

The public functions are in `logdoctor.api`.
"""

from logdoctor.version import __version__

__all__ = ["__version__"]
