"""Builds and runs the first programs of C and of C++ with the package and nothing else."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class FirstPrograms(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        shared = self.dependencies["arrow-device"].options.shared
        cmake = CMake(self)
        cmake.configure(variables={"LIBRARY": "arrow_device::" + ("arrow_device" if shared else "static")})
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("first_c", "first_cpp"):
                self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")
