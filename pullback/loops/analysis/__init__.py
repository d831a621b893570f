"""What statements and loops do: elements they touch, cycles they take, arrays that are parts of others."""
