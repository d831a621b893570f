"""The loop IR: imperative programs over flat buffers, and their builders."""
