"""The C library without AVX2, and without any intrinsics: its own tests, on one built for that."""

import os
import platform
import subprocess
import sys

import pytest

from kernels.native import build
from tests.places import ROOT

OLD = ["-march=x86-64-v2"] if platform.machine() in ("x86_64", "AMD64") else []
CHECKS = (
    "cache/test_paged.py::test_equals_float64_attention_over_what_it_holds",
    "native/test_linear.py::test_product_equals_float64_with_the_weights_held",
    "native/test_linear.py::test_int4_reproduces_weights_on_its_grid_and_the_largest_products_do_not_overflow",
    "native/test_linear.py::test_int8_extremes_do_not_overflow",
    "native/test_linear.py::test_blocks_of_a_file_are_taken_without_loss",
)


@pytest.mark.parametrize("options", [OLD, [*OLD, "-DTRILEMMA_GENERIC"]], ids=["four lanes", "generic"])
def test_attention_and_products_are_those_of_the_reference(options, tmp_path):
    named = build._compiler()
    assert named, "a C compiler is part of the tests' machine"
    compiler = tmp_path / "cc"  # what comes last holds: quick to compile, and for another processor
    compiler.write_text(f'#!/bin/sh\nexec {" ".join(named)} "$@" {" ".join(options)} -O1\n')
    compiler.chmod(0o755)
    env = {**os.environ, "CC": str(compiler), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TRILEMMA_AUTOTUNE": "0"}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    checks = [f"tests/kernels/{check}" for check in CHECKS]
    done = subprocess.run([*words, *checks], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert len(list((tmp_path / "cache" / "trilemma").glob("native-*.so"))) == 1, "another library was tested"
