//! Arrays that are made in Rust for C to consume, with buffers that are counted.
//!
//! They hold what the columns of `c/columns.h` hold.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_device::{
    Array, Batch, Buffer, DataType, DeviceId, Error, ErrorKind, Field, IndexType, Plain, Result,
};

/// One of the kinds of `c/peer.h`.
pub(crate) fn array(kind: c_int) -> Result<Array> {
    match kind {
        0 => ids(),
        1 => names(),
        2 => batch(),
        _ => Err(Error::new(ErrorKind::InvalidArgument, format!("there is no kind {kind}"))),
    }
}

/// How many buffers are not freed.
pub(crate) fn alive() -> i64 {
    ALIVE.load(Ordering::SeqCst)
}

static ALIVE: AtomicI64 = AtomicI64::new(0);

/// The values of a buffer. Counted while they live.
struct Counted<T> {
    values: Box<[T]>,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Values in host memory. Counted while they live.
pub(crate) fn buffer<T: Plain>(values: &[T]) -> Buffer {
    let owner = Counted { values: values.into() };
    ALIVE.fetch_add(1, Ordering::SeqCst);
    let (base, len) = (owner.values.as_ptr().cast(), size_of_val(values) as u64);
    // SAFETY: the box holds `len` bytes of host memory, which do not move with the box, live until
    // the owner is dropped, and are written to by nobody.
    unsafe { Buffer::foreign(DeviceId::CPU, base, len, owner) }
}

fn counted<T: Plain>(values: &[T]) -> Option<Buffer> {
    Some(buffer(values))
}

fn ids() -> Result<Array> {
    let values = counted(&[10_i32, 20, 30, 40]);
    Array::builder(DataType::Int32).len(4).buffers([None, values]).finish_ready()
}

fn names() -> Result<Array> {
    let buffers =
        [counted(&[0x0D_u8]), counted(&[0_i32, 3, 3, 3, 9]), counted("adaémile".as_bytes())];
    Array::builder(DataType::Utf8).len(4).null_count(1).buffers(buffers).finish_ready()
}

fn scores() -> Result<Array> {
    let values = Array::builder(DataType::Float64)
        .len(3)
        .buffers([None, counted(&[1.5_f64, 2.5, 3.0])])
        .finish_ready()?;
    Array::builder(DataType::list(Field::new("item", DataType::Float64, true)))
        .len(4)
        .null_count(1)
        .buffers([counted(&[0x0B_u8]), counted(&[0_i32, 2, 2, 2, 3])])
        .children([values])
        .finish_ready()
}

fn cities() -> Result<Array> {
    let values = Array::builder(DataType::Utf8)
        .len(2)
        .buffers([None, counted(&[0_i32, 4, 9]), counted(b"OsloLima!")])
        .finish_ready()?;
    Array::builder(DataType::dictionary(IndexType::Int8, DataType::Utf8))
        .len(4)
        .buffers([None, counted(&[0_i8, 1, 0, 1])])
        .dictionary(values)
        .finish_ready()
}

fn batch() -> Result<Array> {
    let columns = [("id", ids()?), ("name", names()?), ("scores", scores()?), ("city", cities()?)];
    Ok(Batch::from_columns(columns)?.as_array().clone())
}
