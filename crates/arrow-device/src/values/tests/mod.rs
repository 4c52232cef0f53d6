mod comparing;
mod concat;
mod examples;
mod hostile;
mod refused;
mod round_trips;
mod shared;
mod showing;

use crate::{Array, Buffer, DeviceId, ErrorKind, HostArray, Result};

/// All values as text.
fn texts(array: &Array) -> Vec<String> {
    let host = array.host().unwrap();
    (0..host.len()).map(|index| host.value(index).unwrap().to_string()).collect()
}

/// The same array in memory where nothing is aligned.
fn unaligned(array: &Array) -> Array {
    rebuilt(array, &mut |_| {})
}

/// The same, with the content of every buffer changed.
fn rebuilt(array: &Array, change: &mut dyn FnMut(&mut [u8])) -> Array {
    let host = array.host().unwrap();
    let mut count = array.buffer_count();
    if array.schema_node().layout.is_variadic() {
        // The sizes are added by the builder.
        count -= 1;
    }
    let buffers: Vec<_> = (0..count).map(|index| shifted(&host, index, change)).collect();
    let children: Vec<_> = (0..array.child_count())
        .map(|index| rebuilt(&array.node_child(index).unwrap(), change))
        .collect();
    let builder = Array::builder(array.field().clone())
        .len(array.len())
        .offset(array.offset())
        .buffers(buffers)
        .children(children);
    match array.node_dictionary() {
        Some(values) => builder.dictionary(rebuilt(&values, change)).finish_ready().unwrap(),
        None => builder.finish_ready().unwrap(),
    }
}

fn shifted(host: &HostArray, index: usize, change: &mut dyn FnMut(&mut [u8])) -> Option<Buffer> {
    if host.is_empty() || host.array().node().buffer(index).is_null() {
        return None;
    }
    let mut bytes = host.buffer(index).unwrap().to_vec();
    change(&mut bytes);
    // One byte behind an address that every type is aligned to.
    let mut memory = vec![0_u128; bytes.len() / 16 + 2];
    let base = memory.as_mut_ptr().cast::<u8>().wrapping_add(1);
    // SAFETY: the memory has at least 16 bytes more than are copied, and is nobody else's.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(base, bytes.len()) };
    // SAFETY: so many bytes lie there, as long as the memory that goes with them.
    Some(unsafe { Buffer::foreign(DeviceId::CPU, base.cast(), bytes.len() as u64, memory) })
}

/// The error is of this kind, and says this.
fn assert_fails<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "`{error}` does not say `{says}`");
}
