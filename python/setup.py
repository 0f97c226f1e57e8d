"""Packs build/python, which it lets `make python` build: pip install --no-index --no-build-isolation ./python."""
import pathlib
import re
import subprocess
import sys

from setuptools import Distribution, setup

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
COMMANDS = {"build", "build_py", "bdist_wheel", "install", "develop", "editable_wheel"}


class BinaryDistribution(Distribution):
    """Named after this Python and this machine, since it holds a module that was compiled for them."""

    def has_ext_modules(self):
        return True


if COMMANDS & set(sys.argv):
    subprocess.run(["make", "-C", str(ROOT), "python"], check=True)

setup(
    name="gyrus",
    version=re.search(r"project\(gyrus VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1),
    description="Whole-brain segmentation and neural networks on any GPU, through WebGPU",
    license="MIT",
    python_requires=">=3.9",
    install_requires=["numpy"],
    packages=["gyrus"],
    package_dir={"gyrus": "../build/python/gyrus"},
    package_data={"gyrus": ["*.so", "*.pyi", "py.typed"]},
    distclass=BinaryDistribution,
    zip_safe=False,
)
