"""From programs to running code: compiler, cache, arrays, memory, exported projects."""
