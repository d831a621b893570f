"""Benchmarks: the same work by Pullback, by its peers and by hand-written C, interleaved in one run."""

from benchmarks.derivatives import bench_derivatives
from benchmarks.harness import Contender, Repeated, Row, measure
from benchmarks.zhang import CASES, bench_zhang

__all__ = ["CASES", "Contender", "Repeated", "Row", "bench_derivatives", "bench_zhang", "measure"]
