"""A page that trains Zhang's network in the browser, in C compiled to WebAssembly, on digits that are drawn there."""

from pullback.nn.digits_page.make import export_page

__all__ = ["export_page"]
