"""nanoarrow's part for CUDA, compiled on this machine from its source package: its own tests, and exchange with it.

It needs the source package beside this file, a C and a C++ compiler, and `cuda.h` of the CUDA toolkit or of one of its wheels. The
driver is what the tests are linked to.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy

import arrow_device as ad
import exchange
from libraries import Missing

HERE = Path(__file__).resolve().parent
SOURCES = "subprojects/arrow-nanoarrow/src"
COMMON = ["common/utils.c", "common/schema.c", "common/array.c", "common/array_stream.c", "device/device.c", "device/cuda.c"]
#: The variable that names a folder in which what was compiled stays for the next time.
KEPT = "ARROW_DEVICE_HARDWARE_BUILD"
#: How large a C struct `ArrowDeviceArray` is, and `ArrowError` at least.
ARRAY, WORDS = 128, 1024
#: The types of devices in Arrow's C interface.
CPU, CUDA = 1, 2


def nanoarrow(result, is_quick):
    """The section."""
    found = [str(device) for device in ad.devices() if device.type == "cuda"]
    if not found:
        raise Missing(f"no CUDA device: {ad.devices().missing}")
    compilers = {name: shutil.which(os.environ.get(name, word)) for name, word in (("CC", "cc"), ("CXX", "c++"))}
    if None in compilers.values():
        raise Missing(f"no compilers: {compilers}")
    headers, driver, package = folder_of_headers(), library_of_the_driver(), source_package()
    result.fact("headers", str(headers))
    result.fact("driver", str(driver))
    result.fact("package", package.name)
    with tempfile.TemporaryDirectory(prefix="nanoarrow-") as folder:
        build = Build(Path(os.environ.get(KEPT, folder)), package, headers, driver, compilers)
        result.check("it compiles", build.everything)
        if result.failures:
            return
        for name, passed, words in build.own_tests():
            result.check(name, known, passed, words)
        peer = Peer(build.library, driver)
        result.check("its copies of ours", its_copies_of_ours, peer, is_quick)
        result.check("its arrays are taken", its_arrays_are_taken, peer, is_quick)
        result.check("all memory comes back", all_memory_comes_back, peer)


def known(passed, words):
    """A check of which the outcome is known."""
    assert passed, words
    return ""


def folder_of_headers():
    """Where `cuda.h` is."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    nvcc = shutil.which("nvcc")
    homes += [str(Path(nvcc).resolve().parents[1])] if nvcc else []
    places = [Path(home) / "include" for home in (*homes, "/usr/local/cuda") if home]
    for site in sys.path:
        places += sorted(Path(site).glob("nvidia/*/include"))
    for place in places:
        if (place / "cuda.h").is_file():
            return place
    raise Missing("no cuda.h: CUDA_HOME names a folder with include/cuda.h")


def library_of_the_driver():
    """The file that programs are linked to."""
    named = os.environ.get("ARROW_DEVICE_CUDA_LIBRARY")
    if named:
        return Path(named)
    # The loader has found it already.
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if "libcuda.so" in line:
                return Path(line.split(None, 5)[-1].strip())
    raise Missing("the library of the driver is not loaded")


def source_package():
    packages = sorted(HERE.glob("nanoarrow-*.tar.gz"))
    if not packages:
        raise Missing("no source package of nanoarrow beside the scripts")
    return packages[-1]


class Build:
    """What is compiled, in a folder of its own."""

    def __init__(self, folder, package, headers, driver, compilers):
        self.folder, self.package, self.headers, self.driver, self.compilers = folder, package, headers, driver, compilers
        self.library, self.program = folder / "libpeer.so", folder / "cuda_test"

    def everything(self):
        if self.program.is_file():
            return f"it was compiled before, in {self.folder}"
        with tarfile.open(self.package) as archive:
            wanted = [member for member in archive if f"/{SOURCES}/" in member.name and member.isfile()]
            for member in wanted:
                # No name leads out of the folder, and there are no links.
                assert ".." not in Path(member.name).parts and not member.name.startswith("/"), member.name
                path = self.folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.extractfile(member).read())
        [root] = self.folder.glob(f"nanoarrow-*/{SOURCES}")
        version = self.package.name.removeprefix("nanoarrow-").removesuffix(".tar.gz")
        self.configure(root, version)
        (self.folder / "include/gtest").mkdir(parents=True)
        shutil.copy(HERE / "gtest.h", self.folder / "include/gtest/gtest.h")
        options = ["-O1", "-fPIC", "-w", "-DNANOARROW_DEVICE_WITH_CUDA", f"-I{root}", f"-I{self.folder}/include", f"-I{self.headers}"]
        objects = []
        for source in [root / "nanoarrow" / name for name in COMMON] + [HERE / "nanoarrow_cuda.c"]:
            objects.append(str(self.folder / f"{source.stem}.o"))
            self.run("CC", "-std=c11", *options, "-c", str(source), "-o", objects[-1])
        # By its name: where the library lies is for `run` and for the process that has loaded it.
        linked = [str(self.driver)]
        self.run("CC", "-shared", *objects, "-o", str(self.library), *linked)
        test = str(root / "nanoarrow/device/cuda_test.cc")
        self.run("CXX", "-std=c++17", "-DARROW_DEVICE_GTEST_MAIN", *options, test, *objects, "-o", str(self.program), *linked)
        return version

    def configure(self, root, version):
        """The header that nanoarrow's own build makes of a template."""
        text = (root / "nanoarrow/nanoarrow_config.h.in").read_text(encoding="utf-8")
        parts = dict(zip(("MAJOR", "MINOR", "PATCH"), [*version.split("."), "0", "0", "0"]))
        for name, part in parts.items():
            text = text.replace(f"@NANOARROW_VERSION_{name}@", part)
        text = text.replace("@NANOARROW_VERSION@", version).replace("@NANOARROW_NAMESPACE_DEFINE@", "")
        header = self.folder / "include/nanoarrow/nanoarrow_config.h"
        header.parent.mkdir(parents=True)
        header.write_text(text, encoding="utf-8")

    def run(self, compiler, *words):
        words = [self.compilers[compiler], *words]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, f"{' '.join(words)}: {ended.stdout}{ended.stderr}"[-3000:]

    def own_tests(self):
        """Of each test its name, whether it passed, and what was printed meanwhile."""
        places = os.pathsep.join([str(self.driver.parent), os.environ.get("LD_LIBRARY_PATH", "")])
        environment = {**os.environ, "LD_LIBRARY_PATH": places.strip(os.pathsep)}
        try:
            ended = subprocess.run([str(self.program)], capture_output=True, text=True, timeout=60, env=environment)
            text, code = ended.stdout + ended.stderr, ended.returncode
        except subprocess.TimeoutExpired as error:
            text, code = (error.stdout or b"").decode(errors="replace"), "no status: it hung"
        found, begun, words = [], None, []
        for line in text.splitlines():
            word, _, name = line.partition(" ")
            if word == "begins":
                begun, words = name, []
            elif word in ("passed", "FAILED") and name == begun:
                found.append((f"its own {name}", word == "passed", "\n".join(words)))
                begun = None
            else:
                words.append(line)
        if begun is not None:
            found.append((f"its own {begun}", False, f"it ended there with {code}: {words}"))
        if not found:
            found.append(("its own tests", False, f"none ran: {code}: {text}"))
        return found


class Peer:
    """The library of `nanoarrow_cuda.c`."""

    def __init__(self, path, driver):
        # The same library of the driver that this process has.
        ctypes.CDLL(str(driver), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(path))
        self.pointer = ctypes.pythonapi.PyCapsule_GetPointer
        self.pointer.restype, self.pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

    def copy(self, array, type_, number):
        """A copy of an array of ours that nanoarrow makes, for whoever takes an array of the C interface."""
        schema, capsule = array.__arrow_c_device_array__()
        out, words = ctypes.create_string_buffer(ARRAY), ctypes.create_string_buffer(WORDS)
        code = self.library.arrow_device_nanoarrow_copy(
            ctypes.c_void_p(self.pointer(schema, b"arrow_schema")),
            ctypes.c_void_p(self.pointer(capsule, b"arrow_device_array")),
            ctypes.c_int32(type_), ctypes.c_int64(number), out, words, ctypes.c_size_t(WORDS))
        assert code == 0, words.value.decode(errors="replace")
        return Copied(out, schema)


NAME = b"arrow_device_array"


class Copied:
    """An array of nanoarrow's, which whoever takes it releases."""

    def __init__(self, struct, schema):
        self.struct, self.schema = struct, schema

    def __arrow_c_device_array__(self, requested_schema=None, **_):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return self.schema, make(ctypes.addressof(self.struct), NAME, None)


def samples():
    """Arrays of the types that nanoarrow copies between devices."""
    of = {"int32": ad.array([1, None, 3], type="int32"), "int64": ad.array(numpy.arange(1000, dtype="int64"))}
    with contextlib.suppress(ImportError):
        import pyarrow as pa

        of["utf8"] = ad.array(pa.array(["a", None, "ccc", "", "a longer text"]))
        of["large_binary"] = ad.array(pa.array([b"a", None, b"\0"], pa.large_binary()))
        of["list"] = ad.array(pa.array([[1, 2], None, [], [3, None]]))
        of["struct"] = ad.array(pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]))
    return of


def behind_a_lot(array, is_quick):
    """A copy on the device that is behind much else on its queue, and what it is behind."""
    queue = ad.device("cuda:0").queue()
    much = ad.array(numpy.zeros(1 << (14 if is_quick else 22), dtype="int64"))
    before = [much.to(queue) for _ in range(4)]
    return array.to(queue), before


def its_copies_of_ours(peer, is_quick):
    """nanoarrow copies our arrays to the host, behind what writes them."""
    all_samples = samples()
    for name, array in all_samples.items():
        there, before = behind_a_lot(array, is_quick)
        back = ad.array(peer.copy(there, CPU, -1))
        assert str(back.device) == "cpu" and back == array, f"{name}: {back} and not {array}"
        del before
    return f"{len(all_samples)} types"


def its_arrays_are_taken(peer, is_quick):
    """What nanoarrow has copied to the device is ours there, and comes back."""
    all_samples = samples()
    for name, array in all_samples.items():
        ours = ad.array(peer.copy(array, CUDA, 0))
        assert str(ours.device) == "cuda:0", ours
        assert ours.to_host() == array, f"{name}: {ours.to_host()} and not {array}"
    return f"{len(all_samples)} types"


def all_memory_comes_back(peer):
    exchange.release()
    before = ad.device("cuda:0").held["allocated"]
    for array in samples().values():
        there = array.to("cuda:0")
        ad.array(peer.copy(there, CPU, -1))
        ad.array(peer.copy(array, CUDA, 0))
    del there
    exchange.release()
    after = ad.device("cuda:0").held["allocated"]
    assert after == before, f"{before} bytes before, {after} after"
    return f"{after} bytes"
