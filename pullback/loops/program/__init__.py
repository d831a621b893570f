"""The loop IR: imperative programs over flat buffers, and what writes statements of it."""
