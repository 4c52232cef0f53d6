import gc
import os
import pathlib
import tempfile

import pytest

import arrow_device as ad
import arrow_device.testing
from support import skip


@pytest.fixture
def software():
    """The software device. What it finds to be wrong fails the test."""
    device = ad.device("ext_dev:0")
    ad.testing.take_reports()
    yield device
    gc.collect()
    ad.testing.run_until_idle()
    ad.wait_until_released()
    assert ad.testing.take_reports() == []


# Libraries below wgpu-native write an error themselves where the variable is missing.
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

# Where `cargo xtask test --setup` puts a library for WebGPU.
PEERS = pathlib.Path(os.environ.get("ARROW_DEVICE_PEERS", pathlib.Path(__file__).parents[2] / "target/peers"))
WEBGPU = PEERS / "webgpu/wgpu/resources/libwgpu_native-release.so"
if WEBGPU.is_file():
    os.environ.setdefault("ARROW_DEVICE_WEBGPU_LIBRARY", str(WEBGPU))


def first(kind):
    found = ad.devices()
    device = next((device for device in found if device.type == kind), None)
    return device or skip(kind, found.missing.get(kind))


@pytest.fixture
def opencl():
    return first("opencl")


@pytest.fixture
def vulkan():
    return first("vulkan")


@pytest.fixture
def webgpu():
    return first("webgpu")


@pytest.fixture(params=["cpu", "ext_dev", "opencl", "vulkan", "webgpu"])
def device(request):
    """Each device that there is."""
    if request.param == "cpu":
        return ad.device("cpu")
    name = "software" if request.param == "ext_dev" else request.param
    return request.getfixturevalue(name)


def pytest_terminal_summary(terminalreporter):
    """The closing line of Rust's test programs, by which `cargo xtask test` counts."""
    count = {name: len(reports) for name, reports in terminalreporter.stats.items()}
    failed = count.get("failed", 0) + count.get("error", 0)
    verdict = "FAILED" if failed else "ok"
    passed, skipped = count.get("passed", 0), count.get("skipped", 0)
    terminalreporter.write_line("")
    terminalreporter.write_line(f"test result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored")
