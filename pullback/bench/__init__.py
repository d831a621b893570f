"""Benchmarks: the same work by Pullback, by its peers and by hand-written C, interleaved in one run."""

from pullback.bench.harness import Contender, Row, measure
from pullback.bench.zhang import CASES, bench_zhang

__all__ = ["CASES", "Contender", "Row", "bench_zhang", "measure"]
