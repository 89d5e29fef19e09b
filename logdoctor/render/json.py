"""The report as JSON, the public interface itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def render(report: Mapping[str, Any]) -> str:
    """Write the report as indented JSON."""
    return json.dumps(report, indent=1, ensure_ascii=False)
