"""The loop IR: lowering of programs, storage, memory plans, vector kernels, verification."""
