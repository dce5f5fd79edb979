# Conan 2: `conan create crates/capi/packaging/conan` in a checkout.
import os
import shutil
import subprocess

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy


class TicklessConan(ConanFile):
    name = "tickless"
    version = "0.1.0"
    package_type = "library"
    license = "MIT OR Apache-2.0"
    description = "A lock-free timer engine for C and C++"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def configure(self):
        # The interface is C's, and Rust compiles it.
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("tickless is for 64-bit Linux")

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..", "..", "..")
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
        for path in filter(None, tracked.stdout.decode().split("\0")):
            # (Conan's copy looks through all of the checkout for each, what was built included.)
            to = os.path.join(self.export_sources_folder, path)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy2(os.path.join(root, path), to, follow_symlinks=False)

    def build(self):
        mode = " --dev" if self.settings.build_type == "Debug" else ""
        self.run(f'crates/capi/install.sh "{self.build_folder}/prefix"{mode}')

    def package(self):
        prefix = os.path.join(self.build_folder, "prefix")
        copy(self, "*", os.path.join(prefix, "include"), os.path.join(self.package_folder, "include"))
        library = "libtickless.so*" if self.options.shared else "libtickless.a"
        copy(self, library, os.path.join(prefix, "lib"), os.path.join(self.package_folder, "lib"))
        copy(self, "LICENSE-*", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["tickless"]
        self.cpp_info.system_libs = ["pthread", "m", "dl"]
        self.cpp_info.set_property("cmake_file_name", "tickless")
        self.cpp_info.set_property("cmake_target_name", "tickless::tickless")
        self.cpp_info.set_property("pkg_config_name", "tickless")
