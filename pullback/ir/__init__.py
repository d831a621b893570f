"""The core: the meaning of programs, and nothing above it."""
