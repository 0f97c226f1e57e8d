"""Lets `make python` build the tree, and packs it: pip install --no-index --no-build-isolation ./python."""
import pathlib
import re
import shutil
import subprocess
import sysconfig

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent.parent


class BuildWithTree(build_py):
    def run(self):
        super().run()
        subprocess.run(["make", "-C", str(ROOT), "python"], check=True)
        built = ROOT / "build/python/gyrus"
        if not (built / ("_gyrus" + sysconfig.get_config_var("EXT_SUFFIX"))).exists():
            raise SystemExit(
                "setup: the tree builds its module for another Python than this one; tell it which: "
                "cmake --preset release -DGYRUS_PYTHON=ON -DGYRUS_PYTHON_PROGRAM=…/python3"
            )
        for library in built.glob("*.so"):
            shutil.copy2(library, pathlib.Path(self.build_lib) / "gyrus")


class BinaryDistribution(Distribution):
    """Named after this Python and this machine, since it holds a module that was compiled for them."""

    def has_ext_modules(self):
        return True


setup(
    name="gyrus",
    version=re.search(r"project\(gyrus VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1),
    description="Whole-brain segmentation and neural networks on any GPU, through WebGPU",
    license="MIT",
    python_requires=">=3.9",
    install_requires=["numpy"],
    packages=["gyrus"],
    package_data={"gyrus": ["*.pyi", "py.typed"]},
    cmdclass={"build_py": BuildWithTree},
    distclass=BinaryDistribution,
    zip_safe=False,
)
