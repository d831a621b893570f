"""Loop programs as text: the C printer, names, vector mathematics."""
