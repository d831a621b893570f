"""The text for compilers with and without vector extensions, from conditional sections."""

from __future__ import annotations

from typing import Final

VECTORS: Final = "#ifdef PB_VECTORS"
HAS_VECTORS: Final = """\
#if !defined(PB_NO_VECTORS) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)) && \\
    (__FLT_EVAL_METHOD__ == 0 || __FLT_EVAL_METHOD__ >= 16) /* as their types say: not on x87 */ && \\
    (defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__) || defined(__VSX__) || \\
     defined(__riscv_vector)) /* with registers for them: else compilers write out every lane */
#define PB_VECTORS
#pragma GCC diagnostic ignored "-Wpsabi" /* no vector crosses the boundary of this file */
#endif
"""


def views(text: str) -> tuple[str, str]:
    """The text with vectors and without: shared parts, and the branches of `#ifdef PB_VECTORS`."""
    seen: tuple[list[str], list[str]] = [], []
    both: tuple[int, ...] = (0, 1)
    shown = both
    inside = 0  # the number of open conditions of other kinds
    for line in text.split("\n"):
        if line == VECTORS:
            shown = (0,)
        elif shown != both and not inside and line in ("#else", "#endif"):
            shown = (1,) if line == "#else" else both
        else:
            if shown != both:
                inside += line.startswith("#if") - line.startswith("#endif")
            for k in shown:
                seen[k].append(line)
    return "\n".join(seen[0]), "\n".join(seen[1])
