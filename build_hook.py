"""Builds the compiled functions (`_speedups`) when the package is installed. They are optional: without a compiler the
package is installed without them, and does the same more slowly."""

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = {
    "hanabi.wire.message._speedups": "src/hanabi/wire/message/_speedups.pyx",
    "hanabi.store._speedups": "src/hanabi/store/_speedups.pyx",
    "hanabi.store.fast_path._appends": "src/hanabi/store/fast_path/_appends.pyx",
    "hanabi.store.fast_path._copies": "src/hanabi/store/fast_path/_copies.pyx",
    "hanabi.store.fast_path._reads": "src/hanabi/store/fast_path/_reads.pyx",
    "hanabi.broker.fast_path._frames": "src/hanabi/broker/fast_path/_frames.pyx",
    "hanabi.broker.fast_path._admission": "src/hanabi/broker/fast_path/_admission.pyx",
    "hanabi.broker.fast_path._sends": "src/hanabi/broker/fast_path/_sends.pyx",
}


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Hatch finds it by this name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in place: an editable installation uses the files where they are, a wheel takes them from there."""
        if self.target_name != "wheel":
            return
        try:
            build_in_place(self.root)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a compiler that is not there does
            self.app.display_warning(f"the compiled functions were left out: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def build_in_place(root: str) -> None:
    """Compile every module beside its source."""
    import os

    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    before = os.getcwd()  # noqa: PTH109
    os.chdir(root)  # setuptools knows no other way to say where the sources are
    try:
        extensions = [Extension(name, [path]) for name, path in MODULES.items()]
        modules = cythonize(extensions, build_dir="build/cython", quiet=True)
        distribution = Distribution({"ext_modules": modules, "package_dir": {"": "src"}})
        command = distribution.get_command_obj("build_ext")
        command.inplace = True
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)


if __name__ == "__main__":
    build_in_place(sys.argv[1] if len(sys.argv) > 1 else ".")
