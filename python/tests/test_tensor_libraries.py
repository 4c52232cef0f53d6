"""PyTorch and JAX, where they are installed: tensors in both directions, with every type that each has."""

import numpy as np
import polars
import pyarrow as pa
import pytest

import arrow_device as ad
from support import live, until_no_more_than

TYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128", "bfloat16",
]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="skipped: PyTorch is not installed", exc_type=ImportError)


@pytest.fixture(scope="module")
def jax():
    jax = pytest.importorskip("jax", reason="skipped: JAX is not installed", exc_type=ImportError)
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    return jax


@pytest.mark.parametrize("dtype", TYPES)
def test_torch_shares_tensors_of_every_type(torch, dtype):
    x = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, dtype))
    t = ad.from_dlpack(x)
    assert (t.dtype, t.shape) == (dtype, (2, 3))
    again = torch.from_dlpack(t)
    assert again.dtype == x.dtype and torch.equal(again, x)
    assert again.data_ptr() == x.data_ptr()


def test_torch_takes_arrays_and_batches_columns(torch):
    frame = polars.DataFrame({"x": [1.5, 2.5, 3.5]})
    column = ad.record_batch(frame).column("x")
    assert torch.from_dlpack(column).tolist() == [1.5, 2.5, 3.5]
    assert torch.from_dlpack(ad.array(pa.array([True, False]))).tolist() == [True, False]
    with pytest.raises(BufferError, match="there are nulls"):
        torch.from_dlpack(ad.array(pa.array([1.5, None])))


def test_torchs_odd_strides_are_taken(torch):
    x = torch.arange(24).reshape(2, 3, 4)
    views = [x.mT, x[:, ::2], x[1:, 1:], x[:, :1], x.permute(2, 0, 1), x.expand(2, 3, 4), x[0, 0, 0], x[:0]]
    for view in views:
        t = ad.from_dlpack(view)
        assert t.shape == tuple(view.shape)
        assert torch.equal(torch.from_dlpack(t), view)
        flat = np.from_dlpack(t.to_array()) if view.dim() else np.from_dlpack(t.to_array())[0]
        assert flat.tolist() == view.tolist()


def test_torch_is_asked_for_copies_and_gives_them(torch):
    x = torch.arange(3)
    own, shared = ad.from_dlpack(x, copy=True), ad.from_dlpack(x, copy=False)
    x[0] = 9
    assert (np.from_dlpack(own)[0], np.from_dlpack(shared)[0]) == (0, 9)
    assert torch.from_dlpack(own, copy=True).tolist() == [0, 1, 2]


def test_torch_refuses_what_would_lose_something(torch):
    with pytest.raises(BufferError):
        ad.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(BufferError):
        ad.from_dlpack(torch.ones(2, dtype=torch.complex64).conj())


def test_a_tensor_of_torch_outlives_what_it_was_made_of(torch):
    before = live()
    x = torch.from_dlpack(ad.array(pa.array([1, 2, 3])))
    assert x.sum() == 6 and live()["arrays"] == before["arrays"]
    del x
    until_no_more_than(before, live)


@pytest.mark.parametrize("dtype", TYPES)
def test_jax_takes_and_gives_tensors_of_every_type(jax, dtype):
    x = jax.numpy.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    t = ad.from_dlpack(x)
    assert (t.dtype, t.shape) == (dtype, (2, 3))
    again = jax.dlpack.from_dlpack(t)
    assert again.dtype == x.dtype and (again == x).all()


def test_jax_takes_arrays_and_is_taken_as_one(jax):
    assert jax.dlpack.from_dlpack(ad.array(pa.array([1, 2]))).tolist() == [1, 2]
    assert pa.array(ad.array(jax.numpy.arange(3))).to_pylist() == [0, 1, 2]
    assert np.from_dlpack(ad.from_dlpack(jax.numpy.float32(7))).item() == 7
    assert ad.from_dlpack(jax.numpy.zeros((2, 0))).shape == (2, 0)
