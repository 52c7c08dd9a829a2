"""Runs the examples in the docs of the package and of `Job`, as a member of one job."""

import doctest
import sys

import numpy as np

import tributary
from tributary import job, memory

runner = doctest.DocTestRunner(verbose=False)
found = doctest.DocTestFinder(exclude_empty=True)
# The example of the package joins the job that the others use.
names = {"np": np}
for module in (tributary, job, memory):
    for test in found.find(module, globs={}):
        test.globs = names
        runner.run(test, clear_globs=False)
print(f"examples: {runner.tries}")
sys.exit(1 if runner.failures else 0)
