"""Text with places to fill in: pages, C and JavaScript."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["filled"]


def filled(template: str, parts: Mapping[str, object]) -> str:
    """Return a template with a part in place of each {{name}}; parts are not looked at again.

    >>> from pullback.templates import filled
    >>> filled("<p>{{a}}</p>", {"a": "{{b}}"})
    '<p>{{b}}</p>'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda m: str(parts[m[1]]), template)
