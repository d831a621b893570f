"""Explanation of compilation: its stages, printed as text, Markdown or a page."""

from pullback.explanation.collect import compile_times, derive, explanation_of
from pullback.explanation.page import page, save_page
from pullback.explanation.stages import Explained, Explanation, Format

__all__ = ["Explained", "Explanation", "Format", "compile_times", "derive", "explanation_of", "page", "save_page"]
