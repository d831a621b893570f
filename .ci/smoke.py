"""Runs the Python of pages as a user would who has nothing but the wheel: each in an empty folder.

python -I .ci/smoke.py PAGE...
"""

import os
import re
import runpy
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import pullback
from pullback.runtime.shim import extension

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

there = Path(pullback.__file__).parent
loaded = extension()
print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}, pullback {pullback.__version__} in {there}")
print(f"calls: {loaded.__file__ if loaded else 'by ctypes'}")
for page in map(Path, sys.argv[1:]):
    program = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    start, home = perf_counter(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("page.py").write_text(program, encoding="utf-8")
        runpy.run_path("page.py", run_name="__main__")
        os.chdir(home)
    print(f"--- {page}: {perf_counter() - start:.1f} s", flush=True)
