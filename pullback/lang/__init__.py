"""What users write: index notation, the array API, loops; traced into programs of the core."""
