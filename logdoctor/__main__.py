"""`python -m logdoctor`."""

from logdoctor.cli import entry

entry()
