"""Notebooks: the forms of a value that Jupyter chooses from."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Displayed"]

FORMS: Final = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "image/svg+xml": "_repr_svg_"}


class Displayed:
    """The base of values that notebooks show: as text, and in each form that the class has a method for."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return every form by its media type; the notebook takes the best that it can show."""
        methods = {media: getattr(self, name, None) for media, name in FORMS.items()}
        return {"text/plain": repr(self), **{media: show() for media, show in methods.items() if show is not None}}
