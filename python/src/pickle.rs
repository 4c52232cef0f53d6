//! Pickles: of arrays, batches, tensors, schemas and types.
//!
//! A pickle is a header of bytes, which says what there is, and one buffer of host memory for each
//! buffer of the array. With protocol 5 the buffers are `PickleBuffer`s over the memory itself,
//! which whoever pickles may take out of the pickle, so that nothing is copied.
//!
//! What is read is believed in nothing: every number is checked where it is used, buffers are as
//! long as they are and no longer, and the array is validated in full before anybody gets it.

use std::ffi::{c_int, c_void};
use std::ptr;

use arrow_device::copy::Options;
use arrow_device::dlpack::{Dtype, Tensor};
use arrow_device::{
    Array, Buffer, BufferKind, DataType, DeviceId, DeviceType, Error, ErrorKind, Field, HostArray,
    Layout, Metadata, Queue, Result, Schema,
};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyTuple};

use crate::attach::{Held, LastField};
use crate::error::{OrRaise, invalid};
use crate::{array, backends, device, interrupt, tensor};

/// The beginning of a header, with the version of what follows.
const MAGIC: &[u8; 5] = b"ADPK\x01";
/// Types are nested no deeper than the library lets them.
const DEEPEST: usize = 64;
/// Where a slice shows less than this part of its buffers, it is cut out first.
const WASTE: u64 = 2;
/// So many bytes are not worth a copy.
const FEW: u64 = 4096;

/// What a pickle is put together of.
type Parts<'py> = (Vec<u8>, Vec<Piece>, Python<'py>);

/// Host memory that a pickle has.
#[derive(Debug)]
struct Piece {
    address: usize,
    len: usize,
    owner: Owner,
}

#[derive(Clone, Debug)]
enum Owner {
    Array { _kept: Array },
    Tensor { _kept: Tensor },
}

/// Read-only host memory of an array or a tensor, for the buffer protocol.
#[pyclass(frozen, module = "arrow_device", name = "_Memory")]
#[derive(Debug)]
pub(crate) struct PyMemory {
    address: usize,
    len: usize,
    _owner: Owner,
    _last: LastField,
}

#[pymethods]
impl PyMemory {
    /// # Safety
    /// Called by Python, with a struct that is to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no place for the buffer"));
        }
        let memory = slf.get();
        let address = ptr::with_exposed_provenance_mut::<c_void>(memory.address);
        let len = ffi::Py_ssize_t::try_from(memory.len)?;
        // SAFETY: Python's documentation of `PyBuffer_FillInfo`: the struct is one to be filled;
        // the memory lives as long as the object, which the buffer keeps, and is read-only.
        let code = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, len, 1, flags) };
        if code == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// What `__reduce_ex__` of an array answers.
pub(crate) fn reduce_array<'py>(
    py: Python<'py>,
    array: &Array,
    is_batch: bool,
    protocol: i64,
) -> PyResult<Bound<'py, PyTuple>> {
    let from = backends::called(array.device());
    let host = array::to_device(py, array, DeviceId::CPU, None)?;
    interrupt::wait(py, &host)?;
    let host = py.detach(|| trimmed(host)).or_raise()?;
    let mut parts: Parts<'py> = (MAGIC.to_vec(), Vec::new(), py);
    parts.0.push(if is_batch { b'B' } else { b'A' });
    write_device(&mut parts.0, from);
    write_field(&mut parts.0, host.schema().or_raise()?.field());
    write_node(&mut parts, &host.host().or_raise()?, &host).or_raise()?;
    finish(py, "_unpickle", parts, protocol)
}

/// The same of a tensor.
pub(crate) fn reduce_tensor<'py>(
    py: Python<'py>,
    of: &Tensor,
    protocol: i64,
) -> PyResult<Bound<'py, PyTuple>> {
    if of.is_padded() {
        return Err(invalid(format!("{} with padding is not pickled", of.dtype())));
    }
    let from = backends::called(of.device());
    let host = tensor::moved(py, of, DeviceId::CPU, None)?;
    tensor::wait(py, &host)?;
    let mut parts: Parts<'py> = (MAGIC.to_vec(), Vec::new(), py);
    parts.0.push(b'T');
    write_device(&mut parts.0, from);
    let Dtype { code, bits, lanes } = host.dtype();
    parts.0.extend([code, bits]);
    parts.0.extend(lanes.to_le_bytes());
    write_count(&mut parts.0, host.shape().len());
    for length in host.shape() {
        parts.0.extend(length.to_le_bytes());
    }
    let whole = if host.is_compact() && host.dtype().byte_width().is_some() {
        host
    } else {
        let bytes = py.detach(|| host.host()?.to_bytes()).or_raise()?;
        Tensor::from_buffer(Buffer::from(bytes), host.dtype(), host.shape()).or_raise()?
    };
    let bits = u64::from(bits) * u64::from(lanes);
    let len = whole.len().saturating_mul(bits).div_ceil(8);
    let view = whole.on(&Queue::host()).or_raise()?;
    let address = if len == 0 { 0 } else { view.location().address().expose_provenance() };
    drop(view);
    let len = usize::try_from(len)?;
    parts.1.push(Piece { address, len, owner: Owner::Tensor { _kept: whole } });
    finish(py, "_unpickle", parts, protocol)
}

/// The same of a schema.
pub(crate) fn reduce_schema<'py>(
    py: Python<'py>,
    schema: &Schema,
    function: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut parts: Parts<'py> = (MAGIC.to_vec(), Vec::new(), py);
    parts.0.push(b'S');
    write_field(&mut parts.0, schema.field());
    finish(py, function, parts, 0)
}

fn finish<'py>(
    py: Python<'py>,
    function: &str,
    (header, pieces, _): Parts<'py>,
    protocol: i64,
) -> PyResult<Bound<'py, PyTuple>> {
    let make = py.import("arrow_device._native")?.getattr(function)?;
    let mut arguments = vec![PyBytes::new(py, &header).into_any()];
    let wrap = py.import("pickle")?.getattr("PickleBuffer")?;
    for Piece { address, len, owner } in pieces {
        let memory = PyMemory { address, len, _owner: owner, _last: LastField };
        let memory = Bound::new(py, memory)?.into_any();
        arguments.push(if protocol >= 5 {
            wrap.call1((memory,))?
        } else {
            py.get_type::<PyBytes>().call1((memory,))?
        });
    }
    (make, PyTuple::new(py, arguments)?).into_pyobject(py)
}

/// Without what the array does not show, where that is much.
fn trimmed(array: Array) -> Result<Array> {
    let mut pieces = (Vec::new(), Vec::new());
    let host = array.host()?;
    collect(&mut pieces.0, &mut pieces.1, &host, &array)?;
    let there: u64 = pieces.1.iter().map(|piece: &Piece| piece.len as u64).sum();
    let options = Options::new().always(true);
    let plan = array.plan_copy(&Queue::host(), &options)?;
    if there <= FEW || there / WASTE <= plan.bytes() {
        return Ok(array);
    }
    array.copy_with(&Queue::host(), &options)
}

fn write_device(out: &mut Vec<u8>, device: DeviceId) {
    out.extend(device.device_type.0.to_le_bytes());
    out.extend(device.id.to_le_bytes());
}

fn write_count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u64).to_le_bytes());
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_count(out, bytes.len());
    out.extend(bytes);
}

fn write_field(out: &mut Vec<u8>, field: &Field) {
    write_bytes(out, field.name().as_bytes());
    write_bytes(out, field.data_type().format().as_str().as_bytes());
    out.extend(field.flags().to_le_bytes());
    write_bytes(out, field.metadata().as_encoded_bytes().unwrap_or_default());
    let children = field.data_type().children();
    write_count(out, children.clone().count());
    children.for_each(|child| write_field(out, child));
    let values = field.data_type().dictionary_values();
    out.push(u8::from(values.is_some()));
    if let Some(values) = values {
        write_field(out, values);
    }
}

fn write_node((out, pieces, _): &mut Parts<'_>, host: &HostArray, whole: &Array) -> Result<()> {
    collect(out, pieces, host, whole)
}

/// The numbers of a node and of all below it, and their buffers.
fn collect(
    out: &mut Vec<u8>,
    pieces: &mut Vec<Piece>,
    host: &HostArray,
    whole: &Array,
) -> Result<()> {
    let node = host.array();
    write_count(out, node.len());
    // The buffers of a node without elements have no bytes, and therefore none before an offset.
    write_count(out, if node.is_empty() { 0 } else { node.offset() });
    // The sizes of the data buffers of views are told by the buffers.
    let is_variadic = Layout::of(node.data_type()).is_variadic();
    let buffers = node.buffer_count() - usize::from(is_variadic && node.buffer_count() > 0);
    write_count(out, buffers);
    for index in 0..buffers {
        let bytes = host.buffer(index)?;
        let is_there = node.buffer_kind(index) != Some(BufferKind::Validity) || !bytes.is_empty();
        out.push(u8::from(is_there));
        if is_there {
            let address = if bytes.is_empty() { 0 } else { bytes.as_ptr().expose_provenance() };
            let owner = Owner::Array { _kept: whole.clone() };
            pieces.push(Piece { address, len: bytes.len(), owner });
        }
    }
    for index in 0..node.child_count() {
        collect(out, pieces, &host.child(index)?, whole)?;
    }
    if let Some(dictionary) = host.dictionary() {
        collect(out, pieces, &dictionary, whole)?;
    }
    Ok(())
}

/// What `_unpickle` makes of a header and its buffers.
pub(crate) fn read<'py>(
    py: Python<'py>,
    header: &[u8],
    buffers: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut taken = Vec::with_capacity(buffers.len());
    for buffer in buffers.iter() {
        taken.push(take(&buffer)?);
    }
    let mut reader = Reader { left: header, buffers: taken.into_iter() };
    let kind = reader.begin().or_raise()?;
    let to = match kind {
        b'A' | b'B' | b'T' => reader.device().or_raise()?,
        _ => return Err(broken("is of no kind that is known")).or_raise(),
    };
    if kind == b'T' {
        let made = py.detach(|| reader.tensor()).map_err(altered).or_raise()?;
        let made = if to == DeviceId::CPU {
            made
        } else {
            tensor::moved(py, &made, arrival(py, to)?, None)?
        };
        return Ok(Bound::new(py, tensor::PyTensor::new(made))?.into_any());
    }
    let made = py
        .detach(|| {
            let schema = Schema::new(reader.field(0)?)?;
            let array = reader.array(&schema)?;
            reader.end()?;
            array.validate()?;
            Ok(array)
        })
        .map_err(altered)
        .or_raise()?;
    let made = if to == DeviceId::CPU {
        made
    } else {
        array::to_device(py, &made, arrival(py, to)?, None)?
    };
    Ok(array::wrap(py, made, kind == b'B')?.into_bound(py).into_any())
}

/// The schema in a header.
pub(crate) fn read_schema(header: &[u8]) -> PyResult<Schema> {
    let mut reader = Reader { left: header, buffers: Vec::new().into_iter() };
    let read = |reader: &mut Reader<'_>| {
        if reader.begin()? != b'S' {
            return Err(broken("is not of a schema"));
        }
        let field = reader.field(0)?;
        reader.end()?;
        Schema::new(field)
    };
    read(&mut reader).map_err(altered).or_raise()
}

/// The device that data was pickled on, if this process has it.
fn arrival(py: Python<'_>, to: DeviceId) -> PyResult<DeviceId> {
    device::open(py, to).map(|_| to).map_err(|error| {
        let message = format!(
            "this was pickled on {to}, and goes back there; this process cannot open that device. Pickle `to_host()` of it to \
             get it in host memory"
        );
        let raised = crate::error::missing_device(message, to);
        raised.set_cause(py, Some(error));
        raised
    })
}

/// The memory of an object as a buffer of the library: shared, or copied where its address is odd.
fn take(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    /// As many bytes as the widest element has.
    const ALIGNMENT: usize = 8;
    let view = PyMemoryView::from(object)?;
    // Ends with this function; the memory is held by the view.
    let buffer = PyUntypedBuffer::get(&view)?;
    if !buffer.is_c_contiguous() {
        return Err(invalid("a buffer of a pickle has gaps"));
    }
    let (address, len) = (buffer.buf_ptr(), buffer.len_bytes());
    if len == 0 {
        return Ok(Buffer::null(DeviceId::CPU));
    }
    // SAFETY: UNS-17: the buffer protocol says that so many bytes are there as long as the view
    // lives, which is the owner; `read` tells its callers that nobody may write to them.
    let shared =
        unsafe { Buffer::foreign(DeviceId::CPU, address, len as u64, Held::new(view.into_any())) };
    if address.addr() % ALIGNMENT == 0 {
        return Ok(shared);
    }
    let mut copy = vec![0_u64; len.div_ceil(ALIGNMENT)];
    // SAFETY: the documentation of `copy_nonoverlapping`: the source has so many bytes, as above,
    // the destination at least as many, and it is new.
    unsafe { ptr::copy_nonoverlapping(address.cast::<u8>(), copy.as_mut_ptr().cast(), len) };
    Buffer::from(copy).slice(0, len as u64).or_raise()
}

/// Whatever is found to be wrong is wrong with the data: nobody asked for what it says.
fn altered(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported => Error::new(ErrorKind::InvalidData, error.to_string()),
        _ => error,
    }
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the pickle {what}")).during("unpickle")
}

/// Reads a header from its beginning, and takes one buffer after the other.
struct Reader<'a> {
    left: &'a [u8],
    buffers: std::vec::IntoIter<Buffer>,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (these, left) =
            self.left.split_at_checked(count).ok_or_else(|| broken("ends too early"))?;
        self.left = left;
        Ok(these)
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes(N)?;
        bytes.try_into().map_err(|_| broken("ends too early"))
    }

    fn byte(&mut self) -> Result<u8> {
        self.array_of::<1>().map(|[byte]| byte)
    }

    fn count(&mut self) -> Result<usize> {
        let count = u64::from_le_bytes(self.array_of()?);
        let count = isize::try_from(count).map_err(|_| broken("has a number that is too large"))?;
        Ok(count.unsigned_abs())
    }

    fn text(&mut self) -> Result<&'a [u8]> {
        let count = self.count()?;
        self.bytes(count)
    }

    fn begin(&mut self) -> Result<u8> {
        if self.bytes(MAGIC.len())? != MAGIC {
            return Err(broken("is of another version, or none of this package"));
        }
        self.byte()
    }

    fn end(&mut self) -> Result<()> {
        if !self.left.is_empty() || self.buffers.next().is_some() {
            return Err(broken("has more than belongs to it"));
        }
        Ok(())
    }

    fn device(&mut self) -> Result<DeviceId> {
        let of = DeviceType(i32::from_le_bytes(self.array_of()?));
        let device = DeviceId::new(of, i64::from_le_bytes(self.array_of()?));
        Ok(if of == DeviceType::CPU { DeviceId::CPU } else { device })
    }

    fn field(&mut self, depth: usize) -> Result<Field> {
        if depth > DEEPEST {
            return Err(broken("has types that are nested too deep"));
        }
        let name =
            std::str::from_utf8(self.text()?).map_err(|_| broken("has a name that is no text"))?;
        let format = self.text()?;
        let flags = i64::from_le_bytes(self.array_of()?);
        let encoded = self.text()?;
        let metadata = if encoded.is_empty() {
            Metadata::EMPTY
        } else {
            let (metadata, length) = Metadata::decode(encoded)?;
            if length != encoded.len() {
                return Err(broken("has more than metadata"));
            }
            metadata
        };
        let count = self.count()?;
        let mut children = Vec::new();
        for _ in 0..count {
            // A child takes bytes of the header, so that the count cannot be beyond them for long.
            children.push(self.field(depth + 1)?);
        }
        let dictionary = match self.byte()? {
            0 => None,
            1 => Some(self.field(depth + 1)?),
            _ => return Err(broken("has a type that is no dictionary and not none")),
        };
        let of = DataType::from_format(format, children, dictionary, flags)?;
        Ok(Field::new(name, of, flags & 2 != 0).with_metadata(metadata))
    }

    fn array(&mut self, schema: &Schema) -> Result<Array> {
        let (length, offset, count) = (self.count()?, self.count()?, self.count()?);
        if offset.checked_add(length).is_none_or(|end| isize::try_from(end).is_err()) {
            return Err(broken("has a length that is too large"));
        }
        // An earlier version wrote the offset of a node without elements.
        let offset = if length == 0 { 0 } else { offset };
        let mut buffers = Vec::new();
        for _ in 0..count {
            buffers.push(match self.byte()? {
                0 => None,
                1 => Some(self.buffers.next().ok_or_else(|| broken("has too few buffers"))?),
                _ => return Err(broken("has a buffer that is neither there nor missing")),
            });
        }
        if length == 0 {
            // The format needs no offset without elements, but some other libraries do.
            let layout = Layout::of(schema.data_type());
            for (kind, buffer) in layout.buffers().iter().zip(&mut buffers) {
                if kind.has_one_more() {
                    *buffer = Some(Buffer::from(vec![0_u64]));
                }
            }
        }
        let mut children = Vec::new();
        for child in schema.data_type().children() {
            children.push(self.array(&Schema::new(child.data_type().clone())?)?);
        }
        let dictionary = match schema.data_type().dictionary_values() {
            Some(values) => Some(self.array(&Schema::new(values.data_type().clone())?)?),
            None => None,
        };
        let mut builder =
            Array::builder(schema).len(length).offset(offset).buffers(buffers).children(children);
        if let Some(dictionary) = dictionary {
            builder = builder.dictionary(dictionary);
        }
        builder.finish_ready()
    }

    fn tensor(&mut self) -> Result<Tensor> {
        let [code, bits] = self.array_of()?;
        let lanes = u16::from_le_bytes(self.array_of()?);
        let ndim = self.count()?;
        let mut shape = Vec::new();
        for _ in 0..ndim {
            shape.push(i64::from_le_bytes(self.array_of()?));
        }
        let buffer = self.buffers.next().ok_or_else(|| broken("has too few buffers"))?;
        self.end()?;
        let there = buffer.extent().at_least();
        let tensor = Tensor::from_buffer(buffer, Dtype::new(code, bits, lanes), &shape)?;
        let bits = u64::from(bits) * u64::from(lanes);
        if tensor.len().saturating_mul(bits).div_ceil(8) != there {
            return Err(broken("has a buffer of another length than its tensor"));
        }
        Ok(tensor)
    }
}
