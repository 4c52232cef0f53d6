//! The functions that a Python process calls in the shared library: the child's side, with a peer
//! whose entry point is a callback.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::producer;
use arrow_device_testkit::pushed::numbers;
use arrow_device_testkit::stream::{device_of, host_of};

use crate::bench::{Bench, Context};
use crate::child::Task;
use crate::notes::Notes;
use crate::peer::{Advance, Entry, Kind, Peer, Protocol, Side, usual_places};

/// The functions that the script offers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    /// The entry point, of whatever kind. It gets its arguments in order, and null for those that
    /// it does not have.
    call: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int,
    /// Checks what only Python has, and notes it with `arrow_device_check_note`.
    protocol: unsafe extern "C" fn(*const Notes),
    /// Tells where the next call takes place: the context of `check.h`, or null on the host.
    begin: unsafe extern "C" fn(*const Context),
    /// Whether the module wants to know the device.
    knows_devices: c_int,
}

/// Tries the script's peer as the variables of this process say. Returns 0 if this process is a
/// child.
///
/// # Safety
/// `script` can be called until this returns.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_child(script: *const Script) -> c_int {
    // SAFETY: `script` can be called until this returns, as the caller promises.
    let script = unsafe { *script };
    let Some(task) = Task::of_this_process() else { return libc::EINVAL };
    task.run(|task| peer(script, task.kind, task.side));
    0
}

/// Notes what was seen: `pass`, `fail`, `skip` or `now`.
///
/// # Safety
/// `notes` is what `protocol` was given, and the others are strings.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_note(
    notes: *const Notes,
    verdict: *const c_char,
    id: *const c_char,
    text: *const c_char,
) {
    // SAFETY: `notes` is what `protocol` was given, and the others are strings, as the caller
    // promises.
    let notes = unsafe { &*notes };
    // SAFETY: `notes` is what `protocol` was given, and the others are strings, as the caller
    // promises.
    let [verdict, id, text] =
        [verdict, id, text].map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy());
    match &*verdict {
        "pass" => notes.pass(&id),
        "fail" => notes.fail(&id, &text),
        "now" => notes.now(&id, &text),
        _ => notes.skip(&id, &text),
    }
}

/// Makes a device stream from a stream of plain arrays, which it takes over.
///
/// # Safety
/// `host` is a stream that is not released, and `out` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_wrap_stream(
    host: *mut ArrowArrayStream,
    out: *mut ArrowDeviceArrayStream,
) {
    // SAFETY: `host` is a stream that is not released, and `out` may be written, as the caller
    // promises.
    let moved = unsafe { ptr::replace(host, ArrowArrayStream::empty()) };
    // SAFETY: `host` is a stream that is not released, and `out` may be written, as the caller
    // promises.
    unsafe { out.write(device_of(moved)) };
}

/// Gives another stream like the one that a consumer was given. Returns 0 if there is one.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_another_stream(
    out: *mut ArrowDeviceArrayStream,
) -> c_int {
    let Some(stream) = crate::judge::another_stream() else { return libc::EINVAL };
    // SAFETY: `out` may be written, as the caller promises.
    unsafe { out.write(stream) };
    0
}

/// Gives a stream of a few batches on the host. Returns 0.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_good_stream(
    out: *mut ArrowDeviceArrayStream,
) -> c_int {
    // SAFETY: `out` may be written, as the caller promises.
    unsafe { out.write(crate::judge::good_stream()) };
    0
}

/// Whether the stream that a consumer was given may be shown as a stream of plain arrays.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn arrow_device_check_may_be_plain() -> c_int {
    c_int::from(crate::judge::may_be_plain())
}

/// Makes a stream of plain arrays from a device stream on the host, which it takes over.
///
/// # Safety
/// `device` is a stream that is not released, and `out` may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_plain_stream(
    device: *mut ArrowDeviceArrayStream,
    out: *mut ArrowArrayStream,
) {
    // SAFETY: `device` is a stream that is not released, as the caller promises.
    let moved = unsafe { ptr::replace(device, ArrowDeviceArrayStream::empty()) };
    // SAFETY: `out` may be written, as the caller promises.
    unsafe { out.write(host_of(moved)) };
}

/// Gives three numbers on the host, in a record batch if `is_batch` is not 0.
///
/// # Safety
/// Both may be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn arrow_device_check_numbers(
    schema: *mut ArrowSchema,
    array: *mut ArrowDeviceArray,
    is_batch: c_int,
) {
    let numbers = numbers(0);
    let plan = if is_batch == 0 { numbers } else { crate::judge::in_a_batch(numbers) };
    let ledger = Ledger::new();
    let made = producer::device_array(&plan, &ledger);
    // SAFETY: both may be written, as the caller promises.
    unsafe { schema.write(producer::schema(&plan, &ledger)) };
    // SAFETY: both may be written, as the caller promises.
    unsafe { array.write(ArrowDeviceArray { reserved: [0; 3], ..made }) };
}

fn peer(script: Script, kind: Kind, side: Side) -> Result<Peer, String> {
    let call = move |bench: &Bench, arguments: [*mut c_void; 4]| {
        let [first, second, third, fourth] = arguments;
        // SAFETY: a context that lives as long as the bench, or null.
        unsafe { (script.begin)(bench.context()) };
        // SAFETY: the judges pass what `check.h` says; the script lives as long as this process is
        // a child.
        unsafe { (script.call)(first, second, third, fourth) }
    };
    let none = ptr::null_mut();
    let entry = match (kind, side) {
        (Kind::Array, Side::Producer) => {
            Entry::ProduceArray(Box::new(move |bench, schema, array| {
                call(bench, [schema.cast(), array.cast(), none, none])
            }))
        }
        (Kind::Array, Side::Consumer) => {
            Entry::ConsumeArray(Box::new(move |bench, schema, array| {
                call(bench, [schema.cast(), array.cast(), none, none])
            }))
        }
        (Kind::Array, Side::Relay) => {
            Entry::RelayArray(Box::new(move |bench, schema, array, out_schema, out| {
                call(bench, [schema.cast(), array.cast(), out_schema.cast(), out.cast()])
            }))
        }
        (Kind::Stream, Side::Producer) => Entry::ProduceStream(Box::new(move |bench, out| {
            call(bench, [out.cast(), none, none, none])
        })),
        (Kind::Stream, Side::Consumer) => Entry::ConsumeStream(Box::new(move |bench, stream| {
            call(bench, [stream.cast(), none, none, none])
        })),
        (Kind::Stream, Side::Relay) => Entry::RelayStream(Box::new(move |bench, stream, out| {
            call(bench, [stream.cast(), none, out.cast(), none])
        })),
        (Kind::Dlpack, Side::Producer) => Entry::ProduceTensor(Box::new(move |bench, out| {
            call(bench, [out.cast(), none, none, none])
        })),
        (Kind::Dlpack, Side::Consumer) => Entry::ConsumeTensor(Box::new(move |bench, tensor| {
            call(bench, [tensor.cast(), none, none, none])
        })),
        (Kind::DlpackLegacy, Side::Producer) => {
            Entry::ProduceLegacy(Box::new(move |bench, out| {
                call(bench, [out.cast(), none, none, none])
            }))
        }
        (Kind::DlpackLegacy, Side::Consumer) => {
            Entry::ConsumeLegacy(Box::new(move |bench, tensor| {
                call(bench, [tensor.cast(), none, none, none])
            }))
        }
        (Kind::Async, Side::Producer) => {
            Entry::ProduceAsync(Box::new(|_, _| (libc::ENOSYS, Box::new(|| None) as Advance)))
        }
        (Kind::Async, Side::Consumer) => {
            Entry::ConsumeAsync(Box::new(|_, _| (libc::ENOSYS, Box::new(|| None) as Advance)))
        }
        (kind, Side::Relay) => return Err(crate::peer::no_relay(kind)),
    };
    let protocol = Protocol(Box::new(move |notes: &Notes| {
        // SAFETY: the script uses the notes only until it returns.
        unsafe { (script.protocol)(notes) }
    }));
    let peer = Peer::new(entry, usual_places(side == Side::Producer, script.knows_devices != 0));
    Ok(Peer { protocol: Some(protocol), ..peer })
}
