"""A page that trains Zhang's network in the browser, compiled to WebAssembly, on drawn digits."""

from pullback.nn.digits_page.make import export_page

__all__ = ["export_page"]
