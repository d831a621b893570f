"""Large products: contractions in packed blocks."""
