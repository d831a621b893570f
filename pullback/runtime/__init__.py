"""The way from programs to running code: compiler, cache, arrays, memory, exported projects."""
