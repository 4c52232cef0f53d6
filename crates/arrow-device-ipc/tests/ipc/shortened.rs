//! Files that another process makes shorter, after they were opened and before all of their bytes
//! are read. A reader that mapped such a file would end its process with SIGBUS.
//!
//! The other process is this program again, for the same test.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use arrow_device::{ArrayStream, Batch, ErrorKind, Queue, Result};
use arrow_device_ipc::{Compression, FileReader, ReadOptions, StreamReader, WriteOptions};
use arrow_device_sim::Sim;
use arrow_device_testkit::process::Child;

use crate::files::{file, wide};
use crate::support::written;

/// Tell the other process which file becomes how long.
const FILE: &str = "ARROW_DEVICE_IPC_TEST_FILE";
const LEN: &str = "ARROW_DEVICE_IPC_TEST_LEN";

/// A file, which goes with this value.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let name = format!("arrow-device-ipc-{}-{name}", std::process::id());
        Self(env::temp_dir().join(name))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// Has another process make the file shorter, and waits for that process to end.
    fn is_cut_by_another_process(&self, len: usize) {
        let child = Child::of_this_test().env(FILE, &self.0).env(LEN, len.to_string());
        child.run().expect_success();
        assert_eq!(fs::metadata(&self.0).unwrap().len(), len as u64);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether this is the other process, which has then done its work.
fn was_the_other_process() -> bool {
    let Some(path) = env::var_os(FILE) else { return false };
    let len = env::var(LEN).unwrap().parse().unwrap();
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
    true
}

fn packed(compression: Option<Compression>) -> WriteOptions {
    WriteOptions::new().compression(compression)
}

/// Bodies as they are, and packed.
const FORMS: [Option<Compression>; 3] =
    [None, Some(Compression::Lz4), Some(Compression::Zstd { level: 1 })];

/// The first batch of a stream, and the batches behind it.
fn begun(stream: ArrayStream) -> (Batch, impl Iterator<Item = Result<Batch>>) {
    let mut batches = stream.into_batches();
    (batches.next().unwrap().unwrap(), batches)
}

fn assert_is_cut(read: Option<Result<Batch>>, says: &str, what: &str) {
    let error = read.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{what}: {error}");
    assert!(error.to_string().contains(says), "{what}: {error}");
}

#[test]
fn a_file_that_another_process_makes_shorter_is_an_error_on_the_host_and_on_a_device() {
    if was_the_other_process() {
        return;
    }
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let batches = [wide(0), wide(1)];
    let place = Temporary::new("two-batches.arrow");
    for form in FORMS {
        let whole = file(&batches, packed(form));
        for columns in [(0..10).collect::<Vec<_>>(), vec![2, 7]] {
            // In the body of the second batch, and before everything.
            for len in [whole.len() / 4 * 3, 0] {
                let what = format!("{form:?}, {} columns, {len} bytes", columns.len());
                fs::write(place.path(), &whole).unwrap();
                let options = ReadOptions::new().columns(columns.iter().copied());
                let reader = FileReader::open(place.path(), options).unwrap();
                let streams = [reader.stream(), reader.on(&queue)];
                let begun = streams.map(begun);
                place.is_cut_by_another_process(len);
                for (first, mut batches) in begun {
                    assert_is_cut(batches.next(), "the file ends before byte", &what);
                    // What was read before is there.
                    let first = first.to_host().unwrap();
                    for (found, column) in columns.iter().enumerate() {
                        let expected = self::wide(0).column(*column).unwrap();
                        assert!(first.column(found).unwrap().equals(&expected).unwrap(), "{what}");
                    }
                }
                assert_eq!(reader.batch(0).is_ok(), len > 0, "{what}");
            }
        }
    }
}

#[test]
fn a_stream_in_a_file_that_another_process_makes_shorter_is_an_error_on_the_host_and_on_a_device() {
    if was_the_other_process() {
        return;
    }
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let batches = [wide(0), wide(1)];
    let place = Temporary::new("two-batches.arrows");
    for form in FORMS {
        let whole = written(&batches[0].schema().unwrap(), &batches, packed(form));
        fs::write(place.path(), &whole).unwrap();
        let open = || {
            let file = File::open(place.path()).unwrap();
            StreamReader::new(file, ReadOptions::new()).unwrap()
        };
        let begun = [open().into_stream(), open().on(&queue)].map(begun);
        place.is_cut_by_another_process(whole.len() / 4 * 3);
        for (first, mut left) in begun {
            assert_is_cut(left.next(), "message 2: the input ends", &format!("{form:?}"));
            let first = first.to_host().unwrap();
            assert!(first.as_array().equals(batches[0].as_array()).unwrap(), "{form:?}");
        }
    }
}

/// Reads the second batch until that is an error, which it is once the file was cut.
fn read_until_it_is_cut(reader: &FileReader, queue: &Queue, is_cut: &AtomicBool) {
    loop {
        let was_cut = is_cut.load(SeqCst);
        match reader.batch(1).and_then(|batch| batch.copy_to(queue)) {
            Ok(batch) => assert!(!was_cut, "{batch:?} was read after the file was cut"),
            Err(error) => return assert_eq!(error.kind(), ErrorKind::Malformed, "{error}"),
        }
    }
}

#[test]
fn a_file_that_becomes_shorter_in_the_middle_of_a_read_is_an_error() {
    if was_the_other_process() {
        return;
    }
    let sim = Sim::builder().build();
    let queues = [Queue::host(), sim.device().open_queue().unwrap()];
    let place = Temporary::new("cut-meanwhile.arrow");
    let whole = file(&[wide(0), wide(1)], WriteOptions::new());
    fs::write(place.path(), &whole).unwrap();
    let reader = FileReader::open(place.path(), ReadOptions::new()).unwrap();
    let is_cut = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for queue in &queues {
            scope.spawn(|| read_until_it_is_cut(&reader, queue, &is_cut));
        }
        let cut = || place.is_cut_by_another_process(whole.len() / 4 * 3);
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(cut));
        // Also after a failure, for the threads end only then.
        is_cut.store(true, SeqCst);
        outcome.unwrap();
    });
}
