//! A file that is larger than the memory that its copy may use.
//!
//! The file says the same long text again and again, so that it is small itself, is quickly made,
//! and becomes large only where it is decoded. `ARROW_DEVICE_LARGE=1` makes that more than 4 GB, so
//! that no 32 bits count its bytes, which takes a while where nothing is optimised.
#![cfg(unix)]
// Children are waited for by a call that says how much memory they had.
#![allow(clippy::zombie_processes, clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod support;

use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use support::{Folder, arrow_device, devices, text};

const TEXT: usize = 64 << 10;
const ROWS_AT_ONCE: usize = 256;
/// Nobody needs more than this for a copy, however large the file is.
const MOST: u64 = 512 << 20;

/// Whether the file has more than 4 GB. Otherwise it has more bytes than the copy may have.
fn is_large() -> bool {
    std::env::var_os("ARROW_DEVICE_LARGE").is_some()
}

fn row_count() -> usize {
    (if is_large() { 4400 << 20 } else { MOST as usize + (64 << 20) }) / TEXT
}

/// The devices that the copy goes through. An interpreter of Verilog moves the bytes of a VPI
/// device a bit at a time, so only a large file goes there, which takes long anyway.
fn way() -> String {
    let is_fast = |device: &String| is_large() || !device.starts_with("vpi");
    devices().into_iter().filter(is_fast).collect::<Vec<_>>().join(",")
}

fn write(path: &Path, rows: usize) {
    let words: StringArray = (0..ROWS_AT_ONCE).map(|_| Some("abcdefgh".repeat(TEXT / 8))).collect();
    let numbers = Int32Array::from_iter_values(0..ROWS_AT_ONCE as i32);
    let columns: [(&str, ArrayRef); 2] = [("word", Arc::new(words)), ("number", Arc::new(numbers))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(path).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10_000)).build();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    for start in (0..rows).step_by(ROWS_AT_ONCE) {
        writer.write(&batch.slice(0, ROWS_AT_ONCE.min(rows - start))).unwrap();
    }
    writer.close().unwrap();
}

/// Waits for a child: its exit status, and the most memory that it ever had, in bytes.
fn wait(child: &Child) -> (i32, u64) {
    let id = libc::pid_t::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: a `rusage` is numbers, for all of which zero is a value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places may be written, and nobody has waited for this child yet.
    let waited = unsafe { libc::wait4(id, &mut status, 0, &mut used) };
    assert_eq!(waited, id);
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    (status, used.ru_maxrss as u64 * unit)
}

#[test]
fn a_copy_needs_no_more_memory_for_a_large_file() {
    let folder = Folder::new();
    let (input, out, told) =
        (folder.path("in.parquet"), folder.path("out.parquet"), folder.path("told"));
    let rows = row_count();
    write(&input, rows);
    let way = way();
    let child = arrow_device()
        .args(["copy", text(&input), text(&out), "--through", &way])
        .stdout(File::create(&told).unwrap())
        .spawn()
        .unwrap();
    let (status, memory) = wait(&child);
    let told = std::fs::read_to_string(&told).unwrap();
    assert_eq!(status, 0, "{told}");
    assert!(told.contains(&format!(" through {}", way.replace(',', ", "))), "{told}");
    println!("{} MiB of memory: {}", memory >> 20, told.trim_end());
    assert!(memory < MOST, "{memory} bytes of memory: {told}");

    let copied =
        parquet::file::reader::SerializedFileReader::new(File::open(&out).unwrap()).unwrap();
    let metadata = parquet::file::reader::FileReader::metadata(&copied).file_metadata();
    assert_eq!(metadata.num_rows(), rows as i64);
}
