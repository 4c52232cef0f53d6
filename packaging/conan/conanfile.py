"""The library for C and C++ as a package of Conan: `conan create packaging/conan`.

The package is built from the checkout that this recipe lies in, by cargo and by the installer that every other way of
installing uses.
"""

import os
import re
import shlex

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import can_run, cross_building
from conan.tools.files import copy, rm, rmdir

DEVICES = ("vulkan", "webgpu", "oneapi", "metal", "cuda", "rocm", "hexagon", "vpi", "software")


class ArrowDeviceConan(ConanFile):
    name = "arrow-device"
    description = "Arrow data that lives on a device, shared between libraries without copying it"
    license = "Apache-2.0"
    author = "the arrow-device developers"
    topics = ("arrow", "dlpack", "gpu", "zero-copy")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], **{device: [True, False] for device in DEVICES}}
    default_options = {"shared": True, **{device: device != "software" for device in DEVICES}}

    @property
    def _checkout(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        with open(os.path.join(self._checkout, "Cargo.toml"), encoding="utf-8") as manifest:
            self.version = re.search(r'^version = "(.*)"$', manifest.read(), re.MULTILINE)[1]

    def export_sources(self):
        # All members of the workspace: cargo reads the manifest of each one before it builds any.
        members = ("crates/*", "examples/*", "testing/*", "js/module/*", "benchmarks/*", "xtask/*")
        for pattern in ("Cargo.*", "LICENSE", ".cargo/*", *members):
            copy(self, pattern, src=self._checkout, dst=self.export_sources_folder, excludes=["*.arrow", "*/target/*"])

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("install.sh installs the library on Linux only")
        if cross_building(self) and not can_run(self):
            raise ConanInvalidConfiguration("cargo is asked for the processor of this machine only")

    def package_id(self):
        # The interface is of C: no compiler of C changes what cargo builds.
        del self.info.settings.compiler
        del self.info.settings.build_type

    def _installer(self, *words):
        script = os.path.join(self.source_folder, "crates", "arrow-device-capi", "install.sh")
        return shlex.join(["sh", script, *words])

    @property
    def _target(self):
        return os.environ.get("CARGO_TARGET_DIR", os.path.join(self.build_folder, "target"))

    def build(self):
        devices = ",".join(device for device in DEVICES if self.options.get_safe(device))
        features = ["--features", devices] if devices else []
        self.run(
            shlex.join(
                ["cargo", "build", "--release", "--locked", "--package=arrow-device-capi", *features]
                + ["--target-dir", self._target]
            ),
            cwd=self.source_folder,
        )

    def package(self):
        built = os.path.join(self._target, "release")
        self.run(self._installer("--prefix", self.package_folder, "--from", built), env="conanbuild")
        lib = os.path.join(self.package_folder, "lib")
        # They name this folder. Conan writes files of its own for both, wherever the package is.
        rmdir(self, os.path.join(lib, "cmake"))
        rmdir(self, os.path.join(lib, "pkgconfig"))
        rm(self, "*.a" if self.options.shared else "*.so*", lib)
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["arrow_device"]
        target = "arrow_device::arrow_device" if self.options.shared else "arrow_device::static"
        self.cpp_info.set_property("cmake_file_name", "arrow_device")
        self.cpp_info.set_property("cmake_target_name", target)
        self.cpp_info.set_property("pkg_config_name", "arrow-device")
        if self.options.vpi:
            # A program with the library inside it looks for the module around itself.
            module = os.path.join(self.package_folder, "lib", "arrow-device", "libarrow_device_vpi_module.so")
            self.runenv_info.define_path("ARROW_DEVICE_VPI_MODULE", module)
        if not self.options.shared:
            self.cpp_info.system_libs = ["gcc_s", "util", "rt", "pthread", "m", "dl"]
