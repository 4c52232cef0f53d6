//! How long copies take, beside what they are to be compared with, measured in turn: a call of the
//! driver for each buffer, one large copy each way (the rate of the link, and of the device's own
//! memory), and one thread's `memcpy`. Columns go to the device once more where memory is given
//! back to it at every wait.
//!
//! What is freed in between is not counted, for nobody.

use std::ffi::c_void;
use std::time::Instant;

use arrow_device::copy::Options;
use arrow_device::{Array, Batch, Buffer, DataType, Device, Queue, Result, View};
use libloading::Library;

use crate::report::{
    self,
    Value::{self, Count, Number, Text},
};

/// What a vendor calls the functions that the comparison uses.
pub(crate) struct Names {
    copy: &'static str,
    copy_back: &'static str,
    copy_within: &'static str,
    allocate: &'static str,
    free: &'static str,
    synchronize: &'static str,
    /// Retains the first device's context and makes it current; `None` where a number is enough.
    context: Option<[&'static str; 2]>,
    set_device: Option<&'static str>,
}

pub(crate) static CUDA: Names = Names {
    copy: "cuMemcpyHtoDAsync_v2",
    copy_back: "cuMemcpyDtoHAsync_v2",
    copy_within: "cuMemcpyDtoDAsync_v2",
    allocate: "cuMemAlloc_v2",
    free: "cuMemFree_v2",
    synchronize: "cuStreamSynchronize",
    context: Some(["cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"]),
    set_device: None,
};

pub(crate) static HIP: Names = Names {
    copy: "hipMemcpyHtoDAsync",
    copy_back: "hipMemcpyDtoHAsync",
    copy_within: "hipMemcpyDtoDAsync",
    allocate: "hipMalloc",
    free: "hipFree",
    synchronize: "hipStreamSynchronize",
    context: None,
    set_device: Some("hipSetDevice"),
};

type Address = *mut c_void;
/// Copies so many bytes, to the first address, in the order of a stream.
type Copies = unsafe extern "system" fn(Address, Address, usize, Address) -> i32;

/// The driver's functions, as a program uses them that copies by hand.
struct Raw {
    copy: Copies,
    copy_back: Copies,
    copy_within: Copies,
    allocate: unsafe extern "system" fn(*mut Address, usize) -> i32,
    free: unsafe extern "system" fn(Address) -> i32,
    synchronize: unsafe extern "system" fn(Address) -> i32,
}

impl Raw {
    /// Loads them, and makes the first device current on this thread.
    fn load(library: &str, names: &Names) -> Self {
        // SAFETY: the driver's library, which the backend has loaded already. It stays loaded.
        let library: &Library = Box::leak(Box::new(unsafe { Library::new(library) }.unwrap()));
        if let Some([retain, set]) = names.context {
            let mut context: Address = std::ptr::null_mut();
            // SAFETY: `CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice)`.
            let retain: unsafe extern "system" fn(*mut Address, i32) -> i32 =
                unsafe { found(library, retain) };
            // SAFETY: a handle is written.
            assert_eq!(unsafe { retain(&mut context, 0) }, 0);
            // SAFETY: `CUresult cuCtxSetCurrent(CUcontext)`.
            let set: unsafe extern "system" fn(Address) -> i32 = unsafe { found(library, set) };
            // SAFETY: the context was just retained, and stays.
            assert_eq!(unsafe { set(context) }, 0);
        }
        if let Some(set) = names.set_device {
            // SAFETY: `hipError_t hipSetDevice(int)`.
            let set: unsafe extern "system" fn(i32) -> i32 = unsafe { found(library, set) };
            // SAFETY: the device is open.
            assert_eq!(unsafe { set(0) }, 0);
        }
        Self {
            // SAFETY: `(CUdeviceptr, const void *, size_t, CUstream)`, all as wide as an address.
            copy: unsafe { found(library, names.copy) },
            // SAFETY: `(void *, CUdeviceptr, size_t, CUstream)`, all as wide as an address.
            copy_back: unsafe { found(library, names.copy_back) },
            // SAFETY: `(CUdeviceptr, CUdeviceptr, size_t, CUstream)`, all as wide as an address.
            copy_within: unsafe { found(library, names.copy_within) },
            // SAFETY: `(CUdeviceptr *, size_t)`.
            allocate: unsafe { found(library, names.allocate) },
            // SAFETY: `(CUdeviceptr)`.
            free: unsafe { found(library, names.free) },
            // SAFETY: `(CUstream)`.
            synchronize: unsafe { found(library, names.synchronize) },
        }
    }

    /// Copies all these bytes by a call for each, and waits.
    fn copy_each(&self, to: &[Address], from: &[Address], len: usize, queue: &Queue) {
        self.copy_by(self.copy, to, from, len, queue);
    }

    /// The same by one of the functions.
    fn copy_by(&self, copy: Copies, to: &[Address], from: &[Address], len: usize, queue: &Queue) {
        let stream = queue.raw().as_ptr();
        for (to, from) in to.iter().zip(from) {
            // SAFETY: both have so many bytes, and stay until the stream is done.
            assert_eq!(unsafe { copy(*to, *from, len, stream) }, 0);
        }
        // SAFETY: the queue is open.
        assert_eq!(unsafe { (self.synchronize)(stream) }, 0);
    }

    fn allocate(&self, len: usize) -> Address {
        let mut address = std::ptr::null_mut();
        // SAFETY: an address is written.
        assert_eq!(unsafe { (self.allocate)(&mut address, len) }, 0);
        address
    }

    fn free(&self, all: &[Address]) {
        for address in all {
            // SAFETY: `allocate` gave it, and nothing uses it any more.
            assert_eq!(unsafe { (self.free)(*address) }, 0);
        }
    }
}

/// # Safety
/// `T` is the type of the function of that name.
unsafe fn found<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: `T` is the type of the function of that name, as the caller promises.
    *unsafe { library.get::<T>(name.as_bytes()) }.unwrap()
}

/// The members of a measurement, for the report.
pub(crate) type Row = Vec<(&'static str, Value)>;

/// Everything that is measured.
pub(crate) fn measure(
    library: &str,
    names: &Names,
    device: &Device,
    pinned: &Device,
    is_quick: bool,
) -> Result<Vec<Row>> {
    let raw = Raw::load(library, names);
    let rounds = rounds(is_quick);
    let (queue, host) = (device.open_queue()?, pinned.open_queue()?);
    let bytes = if is_quick { 1 << 20 } else { 256 << 20 };
    let links = links(&raw, &queue, &host, bytes, rounds)?;
    let mut rows = Vec::new();
    let mut keep = |row: Row| {
        // Said at once, for whoever has to stop this.
        println!("{}", report::members(&row));
        rows.push(row);
    };
    for (way, link) in [
        ("one large copy from pinned memory", links.to_device),
        ("one large copy to pinned memory", links.to_host),
        ("one large copy within the device", links.within),
    ] {
        keep(vec![
            ("device", Text(device.id().to_string())),
            ("way", Text(way.into())),
            ("gigabytes_per_second", Number(link / 1e9)),
        ]);
    }
    for &(count, len) in shapes(is_quick) {
        let pageable = columns(count, len)?;
        let options = Options::new().always(true).separate(true);
        let pinned = pageable.copy_with(&host, &options)?;
        pinned.wait()?;
        let memcpy = memcpy(&pageable, &host, len, rounds)?;
        for (source, array, on) in
            [("pinned", &pinned, &host), ("pageable", &pageable, &Queue::host())]
        {
            let views = views(array, on)?;
            let from: Vec<Address> = views.iter().map(address).collect();
            keep(beside_calls(
                &raw,
                array,
                (source, &from, len),
                &queue,
                rounds,
                [links.to_device, memcpy],
            )?);
        }
        other_ways(&pageable, count * len, &queue, rounds, &links)?.into_iter().for_each(&mut keep);
    }
    Ok(rows)
}

/// How many columns, and of how many bytes.
fn shapes(is_quick: bool) -> &'static [(usize, usize)] {
    match is_quick {
        true => &[(16, 64 << 10), (1000, 4 << 10)],
        false => &[(1000, 1 << 20), (1000, 4 << 10)],
    }
}

fn rounds(is_quick: bool) -> usize {
    if is_quick { 3 } else { 7 }
}

/// The library's copy of a batch to the device, in turn with a call for each buffer, with and
/// without an allocation for each.
fn beside_calls(
    raw: &Raw,
    array: &Array,
    (source, from, len): (&str, &[Address], usize),
    queue: &Queue,
    rounds: usize,
    [link, memcpy]: [f64; 2],
) -> Result<Row> {
    let bytes = from.len() * len;
    let one = raw.allocate(bytes);
    let parts: Vec<Address> = (0..from.len()).map(|index| offset(one, index * len)).collect();
    let mut times: [Vec<f64>; 3] = Default::default();
    // The first round is not counted.
    for round in 0..=rounds {
        let start = Instant::now();
        let there = array.copy_to(queue)?;
        there.wait()?;
        let ours = start.elapsed();
        drop(there);
        arrow_device::deferred::release_finished();

        let start = Instant::now();
        raw.copy_each(&parts, from, len, queue);
        let calls = start.elapsed();

        let start = Instant::now();
        let own: Vec<Address> = from.iter().map(|_| raw.allocate(len)).collect();
        raw.copy_each(&own, from, len, queue);
        let allocations = start.elapsed();
        raw.free(&own);
        if round > 0 {
            for (times, time) in times.iter_mut().zip([ours, calls, allocations]) {
                times.push(time.as_secs_f64());
            }
        }
    }
    raw.free(&[one]);
    let [ours, calls, allocations] = times.map(median);
    let rate = bytes as f64 / ours;
    Ok(vec![
        ("device", Text(queue.device().id().to_string())),
        ("way", Text(format!("host to device, {source}"))),
        ("columns", Count(from.len() as u64)),
        ("bytes_each", Count(len as u64)),
        ("milliseconds", Number(ours * 1e3)),
        ("gigabytes_per_second", Number(rate / 1e9)),
        ("call_per_buffer_milliseconds", Number(calls * 1e3)),
        ("times_call_per_buffer", Number(calls / ours)),
        ("allocation_and_call_per_buffer_milliseconds", Number(allocations * 1e3)),
        ("times_allocation_and_call_per_buffer", Number(allocations / ours)),
        ("of_link_rate", Number(rate / link)),
        ("memcpy_gigabytes_per_second", Number(memcpy / 1e9)),
        ("of_one_threads_memcpy", Number(rate / memcpy)),
    ])
}

/// Pinned columns to a device whose pool keeps nothing, so that physical memory is given back at
/// each wait.
pub(crate) fn where_nothing_is_kept(
    device: &Device,
    pinned: &Device,
    is_quick: bool,
) -> Result<Vec<Row>> {
    let (queue, host) = (device.open_queue()?, pinned.open_queue()?);
    let options = Options::new().always(true).separate(true);
    let row = |&(count, len): &(usize, usize)| {
        let array = columns(count, len)?.copy_with(&host, &options)?;
        array.wait()?;
        let mut times = Vec::new();
        // The first round is not counted.
        for _ in 0..=rounds(is_quick) {
            let start = Instant::now();
            let there = array.copy_to(&queue)?;
            there.wait()?;
            times.push(start.elapsed().as_secs_f64());
            drop(there);
            arrow_device::deferred::release_finished();
        }
        times.remove(0);
        let seconds = median(times);
        Ok(vec![
            ("device", Text(device.id().to_string())),
            ("way", Text("host to device, pinned, the pool keeps nothing".into())),
            ("columns", Count(count as u64)),
            ("bytes_each", Count(len as u64)),
            ("milliseconds", Number(seconds * 1e3)),
            ("gigabytes_per_second", Number((count * len) as f64 / seconds / 1e9)),
        ])
    };
    shapes(is_quick).iter().map(row).collect()
}

/// To the memory of another device, beside one large copy there.
pub(crate) fn to_a_peer(
    library: &str,
    names: &Names,
    [device, peer]: [&Device; 2],
    is_quick: bool,
) -> Result<Vec<Row>> {
    let raw = Raw::load(library, names);
    let (queue, theirs) = (device.open_queue()?, peer.open_queue()?);
    let bytes = if is_quick { 1 << 20 } else { 256 << 20 };
    let from = raw.allocate(bytes);
    let mut memory = peer.allocate(bytes as u64)?;
    let to = memory.spot(&theirs)?.base.as_ptr().cast();
    let mut best = f64::INFINITY;
    for _ in 0..=rounds(is_quick) {
        let start = Instant::now();
        raw.copy_by(raw.copy_within, &[to], &[from], bytes, &queue);
        best = best.min(start.elapsed().as_secs_f64());
    }
    raw.free(&[from]);
    let link = bytes as f64 / best;
    let devices = format!("{} to {}", device.id(), peer.id());
    let mut rows = vec![vec![
        ("device", Text(devices.clone())),
        ("way", Text("one large copy to another device".into())),
        ("gigabytes_per_second", Number(link / 1e9)),
    ]];
    let options = Options::new().always(true);
    for &(count, len) in shapes(is_quick) {
        let there = columns(count, len)?.copy_to(&queue)?;
        there.wait()?;
        let seconds = timed(rounds(is_quick), &|| there.copy_with(&theirs, &options)?.wait())?;
        let rate = (count * len) as f64 / seconds;
        rows.push(vec![
            ("device", Text(devices.clone())),
            ("way", Text("to another device".into())),
            ("columns", Count(count as u64)),
            ("bytes_each", Count(len as u64)),
            ("milliseconds", Number(seconds * 1e3)),
            ("gigabytes_per_second", Number(rate / 1e9)),
            ("of_link_rate", Number(rate / link)),
        ]);
    }
    Ok(rows)
}

/// How many seconds some work takes in the middle. The first round is not counted.
fn timed(rounds: usize, work: &dyn Fn() -> Result<()>) -> Result<f64> {
    work()?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(median(times))
}

/// Back to the host, and within the device.
fn other_ways(
    array: &Array,
    bytes: usize,
    queue: &Queue,
    rounds: usize,
    links: &Links,
) -> Result<Vec<Row>> {
    let there = array.copy_to(queue)?;
    there.wait()?;
    let again = Options::new().always(true);
    let back = || there.copy_with(&Queue::host(), &again).map(drop);
    let within = || there.copy_with(queue, &again)?.wait();
    let works: [&dyn Fn() -> Result<()>; 2] = [&back, &within];
    let ways = [("device to host", links.to_host), ("within the device", links.within)];
    let mut rows = Vec::new();
    for ((way, link), work) in ways.into_iter().zip(works) {
        let seconds = timed(rounds, work)?;
        rows.push(vec![
            ("device", Text(queue.device().id().to_string())),
            ("way", Text(way.into())),
            ("columns", Count(array.child_count() as u64)),
            ("bytes_each", Count((bytes / array.child_count().max(1)) as u64)),
            ("milliseconds", Number(seconds * 1e3)),
            ("gigabytes_per_second", Number(bytes as f64 / seconds / 1e9)),
            ("of_link_rate", Number(bytes as f64 / seconds / link)),
        ]);
    }
    Ok(rows)
}

/// Bytes a second of one large copy each way: the best of all rounds.
struct Links {
    to_device: f64,
    to_host: f64,
    within: f64,
}

/// Measures them from and to one large pinned buffer.
fn links(raw: &Raw, queue: &Queue, host: &Queue, bytes: usize, rounds: usize) -> Result<Links> {
    let mut pinned = host.device().allocate(bytes as u64)?;
    pinned.write(host, &vec![7; bytes])?;
    host.synchronize()?;
    let of_host = pinned.spot(host)?.base.as_ptr().cast();
    let [one, other] = [(); 2].map(|()| raw.allocate(bytes));
    let rate = |copy, to, from| {
        let mut best = f64::INFINITY;
        for _ in 0..=rounds {
            let start = Instant::now();
            raw.copy_by(copy, &[to], &[from], bytes, queue);
            best = best.min(start.elapsed().as_secs_f64());
        }
        bytes as f64 / best
    };
    let links = Links {
        to_device: rate(raw.copy, one, of_host),
        to_host: rate(raw.copy_back, of_host, one),
        within: rate(raw.copy_within, other, one),
    };
    raw.free(&[one, other]);
    Ok(links)
}

/// Bytes a second that one thread copies from these columns to pinned memory that was written
/// before.
fn memcpy(array: &Array, host: &Queue, len: usize, rounds: usize) -> Result<f64> {
    let views = views(array, &Queue::host())?;
    let bytes = views.len() * len;
    let mut pinned = host.device().allocate(bytes as u64)?;
    pinned.write(host, &vec![7; bytes])?;
    host.synchronize()?;
    let to: Address = pinned.spot(host)?.base.as_ptr().cast();
    let mut times = Vec::new();
    for _ in 0..=rounds {
        let start = Instant::now();
        for (index, view) in views.iter().enumerate() {
            let to = offset(to, index * len).cast::<u8>();
            // SAFETY: each column has so many bytes, all of them together fit behind `to`, which
            // the host may write: nothing uses it.
            unsafe { std::ptr::copy_nonoverlapping(address(view).cast::<u8>(), to, len) };
        }
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(bytes as f64 / median(times))
}

/// Columns of so many bytes, each in an allocation of its own.
fn columns(count: usize, len: usize) -> Result<Array> {
    let column = |number: usize| {
        let bytes: Vec<u8> = (0..len).map(|at| (at ^ number) as u8).collect();
        let buffers = [None, Some(Buffer::from(bytes))];
        let array = Array::builder(DataType::UInt8).len(len).buffers(buffers).finish_ready()?;
        Ok((format!("column {number}"), array))
    };
    let columns: Result<Vec<(String, Array)>> = (0..count).map(column).collect();
    Ok(Batch::from_columns(columns?)?.as_array().clone())
}

fn views(array: &Array, queue: &Queue) -> Result<Vec<View>> {
    (0..array.child_count()).map(|index| array.child(index)?.on(queue)).collect()
}

fn address(view: &View) -> Address {
    view.buffer(1).location().address().cast_mut().cast()
}

fn offset(address: Address, bytes: usize) -> Address {
    address.cast::<u8>().wrapping_add(bytes).cast()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}
