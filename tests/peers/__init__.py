"""Programs that make stored numbers with other systems, and comparisons with these where they are there."""
