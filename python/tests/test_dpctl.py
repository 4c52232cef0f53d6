"""dpctl and dpnp themselves, on Intel's SYCL runtime for processors: `cargo xtask oneapi`."""

import gc
import subprocess
import sys

import dpctl
import dpctl.memory
import dpnp
import numpy as np
import pytest

import arrow_device as ad


def address(array):
    about = array.__sycl_usm_array_interface__
    return about["data"][0] + about.get("offset", 0) * np.dtype(about["typestr"]).itemsize


def test_the_library_of_the_installed_package_is_found():
    code = "import arrow_device as ad; assert ad.array([1], device='oneapi:0').to_host().to_pylist() == [1]"
    # Nothing of dpctl is imported, and no variable names its library.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "float64"])
def test_an_array_of_dpnp_is_shared(dtype):
    theirs = dpnp.arange(1000, dtype=dtype) % 100
    ours = ad.array(theirs)
    assert str(ours.device) == "oneapi:0" and str(ours.type) == {"float32": "float32", "float64": "float64"}.get(dtype, dtype)
    assert ours.to_host().to_pylist() == dpnp.asnumpy(theirs).tolist()
    # DLPack comes first, the other interface is for what has no DLPack; both share.
    assert address(ours) == address(theirs)


def test_what_dpnp_has_not_computed_yet_is_waited_for():
    for _ in range(20):
        theirs = dpnp.full(200_000, 1.0)
        for _ in range(20):
            theirs = theirs * 1.5
        expected = 1.5**20
        ours = ad.array(theirs)
        read = np.asarray(ours.to_host())
        assert (read == expected).all()


def test_strides_and_offsets_of_dpnp_are_kept():
    theirs = dpnp.arange(24, dtype="int32")
    for view in (theirs[2::3], theirs[::-1], theirs[20:4:-5]):
        assert ad.array(view).to_host().to_pylist() == dpnp.asnumpy(view).tolist()
    assert len(ad.array(dpnp.zeros(0))) == 0


class Described:
    """An object with the interface alone."""

    def __init__(self, of):
        self.of = of
        self.__sycl_usm_array_interface__ = of.__sycl_usm_array_interface__


def test_the_interface_alone_is_enough():
    queue = dpctl.SyclQueue()
    for memory in (dpctl.memory.MemoryUSMDevice, dpctl.memory.MemoryUSMHost, dpctl.memory.MemoryUSMShared):
        theirs = memory(16, queue=queue)
        theirs.copy_from_host(np.arange(16, dtype="u1"))
        ours = ad.array(theirs)
        assert ours.to_host().to_pylist() == list(range(16))
        del theirs
        gc.collect()
        assert ours.slice(3, 2).to_host().to_pylist() == [3, 4]
    view = dpnp.arange(24, dtype="int32")[2::3]
    assert ad.array(Described(view)).to_host().to_pylist() == dpnp.asnumpy(view).tolist()


def test_memory_of_a_context_of_its_own_is_taken():
    device = dpctl.SyclDevice()
    queue = dpctl.SyclQueue(dpctl.SyclContext(device), device)
    theirs = dpctl.memory.MemoryUSMDevice(8, queue=queue)
    theirs.copy_from_host(np.arange(8, dtype="u1"))
    assert ad.array(theirs).to_host().to_pylist() == list(range(8))


def test_dpctl_and_dpnp_share_our_arrays():
    numbers = list(range(1000))
    ours = ad.array(numbers, type="int32", device="oneapi:0")
    theirs = dpnp.asarray(ours)
    assert dpnp.asnumpy(theirs).tolist() == numbers
    by_dlpack = dpnp.from_dlpack(ours)
    assert address(by_dlpack) == address(ours) and dpnp.asnumpy(by_dlpack + 1).tolist() == [n + 1 for n in numbers]
    for described in (ours, Described(ours)):
        by_interface = dpnp.tensor.asarray(described, copy=False)
        assert address(by_interface) == address(ours) and int(dpnp.tensor.sum(by_interface)) == sum(numbers)
        assert by_interface.sycl_queue.sycl_context == dpctl.SyclQueue().sycl_context
        # Read-only memory is copied by dpnp's other function.
        assert dpnp.asnumpy(dpnp.asarray(described)).tolist() == numbers
    memory = dpctl.memory.as_usm_memory(ours)
    assert memory.nbytes == 4000
    assert memory.copy_to_host().view("i4").tolist() == numbers


def test_dpctl_and_dpnp_share_our_tensors():
    table = ad.from_dlpack(np.arange(24, dtype="float32").reshape(4, 6)).to("oneapi:0")
    for ours, expected in ((table, np.arange(24).reshape(4, 6)), (table.permute([1, 0]), np.arange(24).reshape(4, 6).T)):
        for described in (ours, Described(ours)):
            theirs = dpnp.tensor.asarray(described, copy=False)
            assert address(theirs) == address(ours) and theirs.shape == ours.shape
            assert dpnp.tensor.asnumpy(theirs).tolist() == expected.tolist()
            # Computed in the order of the queue that the dictionary names.
            assert float(dpnp.tensor.sum(theirs)) == expected.sum()
    # A tensor over memory of theirs is that memory, to which nobody may write as long as it is
    # shared.
    theirs = dpnp.zeros(5, dtype="int64")
    assert ad.from_dlpack(theirs).__sycl_usm_array_interface__["data"] == (address(theirs), True)


def test_a_tensor_of_ours_lives_as_long_as_what_dpnp_made_of_it():
    theirs = dpnp.tensor.asarray(ad.array(list(range(100)), type="int64", device="oneapi:0").to_tensor(), copy=False)
    gc.collect()
    others = [ad.array([9] * 100, type="int64", device="oneapi:0") for _ in range(20)]
    assert dpnp.tensor.asnumpy(theirs).tolist() == list(range(100))
    del theirs, others
    gc.collect()
    ad.wait_until_released()
    assert ad.device("oneapi:0").held["allocated"] == 0


def test_our_memory_lives_as_long_as_what_dpnp_made_of_it():
    for make in (dpnp.from_dlpack, lambda ours: dpnp.tensor.asarray(ours, copy=False)):
        theirs = make(ad.array(list(range(100)), type="int64", device="oneapi:0"))
        gc.collect()
        others = [ad.array([9] * 100, type="int64", device="oneapi:0") for _ in range(20)]
        assert dpnp.tensor.asnumpy(getattr(theirs, "get_array", lambda: theirs)()).tolist() == list(range(100))
        del theirs, others
    gc.collect()
    ad.wait_until_released()
    assert ad.device("oneapi:0").held["allocated"] == 0


def test_a_queue_of_ours_is_one_of_dpctls():
    ours = ad.array([1.5], device="oneapi:0")
    queue = dpctl.SyclQueue(ours.__sycl_usm_array_interface__["syclobj"]._get_capsule())
    assert queue.is_in_order and queue.sycl_device == dpctl.SyclDevice()
    queue.wait()


def test_a_queue_of_dpctls_is_one_of_ours():
    queue = dpctl.SyclQueue(property="in_order")
    lane = ad.Queue.from_handle("oneapi:0", queue.addressof_ref())
    # The queue stays, although dpctl's object goes first.
    del queue
    there = ad.array([1, 2, 3]).to(lane)
    assert there.to_host().to_pylist() == [1, 2, 3]
    lane.synchronize()


def test_ten_thousand_small_arrays_go_there_and_back():
    before = ad.device("oneapi:0").held["allocated"]
    theirs = dpnp.arange(8, dtype="int32")
    for number in range(10_000):
        ours = ad.array(theirs)
        if number % 1000 == 0:
            assert ours.to_host().to_pylist() == list(range(8))
    del ours
    gc.collect()
    ad.wait_until_released()
    assert ad.device("oneapi:0").held["allocated"] == before
