//! Objects that are asked while they are being asked: by their own callbacks, by other threads, and
//! in a child of `fork`.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::{ErrorKind, Result};
use arrow_device_capi::*;

use crate::support::face::{call, made};
use crate::support::objects::int64;

/// How long a call may take that does not wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream of a source, as a thread may have it.
#[derive(Clone, Copy)]
struct Stream(*mut ArdevStream);

// SAFETY: rule 4 of the header: functions can be called on any thread.
unsafe impl Send for Stream {}
// SAFETY: rule 4 of the header: "also at once and with the same objects".
unsafe impl Sync for Stream {}

impl Stream {
    fn of(source: &ArdevSource) -> Self {
        let schema = int64();
        let stream = made(|out, error| unsafe { ardev_stream_new(schema, 1, source, out, error) });
        unsafe { ardev_schema_free(schema) };
        Self(stream.unwrap())
    }

    fn device_type(self) -> Result<i32> {
        let mut out = -1;
        call(|error| unsafe { ardev_stream_device_type(self.0, &mut out, error) })?;
        Ok(out)
    }

    fn schema(self) -> Result<()> {
        let mut out = ptr::null_mut();
        call(|error| unsafe { ardev_stream_schema(self.0, &mut out, error) })?;
        unsafe { ardev_schema_free(out) };
        Ok(())
    }

    /// Whether there was one more array.
    fn next(self) -> Result<bool> {
        let mut out = ptr::null_mut();
        call(|error| unsafe { ardev_stream_next(self.0, &mut out, error) })?;
        unsafe { ardev_array_free(out) };
        Ok(!out.is_null())
    }

    fn export(self) -> Result<()> {
        let mut out = ArrowDeviceArrayStream::empty();
        call(|error| unsafe { ardev_stream_export(self.0, ptr::null(), &mut out, error) })
    }

    fn export_host(self) -> Result<()> {
        let mut out = ArrowArrayStream::empty();
        call(|error| unsafe { ardev_stream_export_host(self.0, &mut out, error) })
    }

    fn free(self) {
        unsafe { ardev_stream_free(self.0) };
    }
}

/// What a source has found out about its own stream, in words.
#[derive(Default)]
struct Asking {
    stream: OnceLock<Stream>,
    told: Mutex<Vec<String>>,
    sender: Mutex<Option<Sender<Vec<String>>>>,
}

impl Asking {
    /// Asks the stream for all that can be asked of it.
    fn ask(&self, place: &str) {
        let Some(stream) = self.stream.get() else { return };
        let word = |what: &str, outcome: Result<()>| match outcome {
            Ok(()) => format!("{place}: {what}"),
            Err(error) => format!("{place}: {what}: {:?}: {}", error.kind(), error.message()),
        };
        let mut told = self.told.lock().unwrap();
        told.push(word("type", stream.device_type().map(drop)));
        told.push(word("schema", stream.schema()));
        told.push(word("next", stream.next().map(drop)));
        told.push(word("export", stream.export()));
        told.push(word("export to the host", stream.export_host()));
    }
}

unsafe extern "C" fn asking_next(
    context: *mut c_void,
    _: *mut *mut ArdevArray,
    _: *mut ArdevError,
) -> c_int {
    unsafe { &*context.cast::<Asking>() }.ask("next");
    0
}

unsafe extern "C" fn asking_release(context: *mut c_void) {
    let asking = unsafe { Arc::from_raw(context.cast::<Asking>()) };
    asking.ask("release");
    if let Some(sender) = asking.sender.lock().unwrap().take() {
        sender.send(std::mem::take(&mut asking.told.lock().unwrap())).unwrap();
    }
}

// Requirement: SAF-23, SAF-24
#[test]
fn a_source_may_ask_its_own_stream() {
    let (sender, told) = mpsc::channel();
    let asking = Arc::new(Asking { sender: Mutex::new(Some(sender)), ..Asking::default() });
    std::thread::spawn(move || {
        let source = ArdevSource {
            context: Arc::into_raw(asking.clone()).cast_mut().cast(),
            next: Some(asking_next),
            release: Some(asking_release),
            ..ArdevSource::default()
        };
        let stream = Stream::of(&source);
        assert!(asking.stream.set(stream).is_ok());
        // The end of the source: its release is called on the way.
        assert!(!stream.next().unwrap());
        stream.free();
    });
    let told = told.recv_timeout(PATIENCE).expect("the source has its answers");
    let busy = "InvalidArgument: invalid argument: this thread is in another call of the stream";
    for place in ["next", "release"] {
        let of_place: Vec<&String> = told.iter().filter(|line| line.starts_with(place)).collect();
        assert_eq!(of_place.len(), 5, "{told:#?}");
        assert_eq!(of_place[0], &format!("{place}: type"));
        assert_eq!(of_place[1], &format!("{place}: schema"));
        for (line, what) in of_place[2..].iter().zip(["next", "export", "export to the host"]) {
            assert!(line.starts_with(&format!("{place}: {what}: {busy}")), "{line}");
        }
    }
}

/// A source that says when it is asked, and waits until it is told to go on.
struct Gate {
    asked: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Gate {
    fn source() -> (ArdevSource, Receiver<()>, Sender<()>) {
        let ((asked, is_asked), (goes_on, go_on)) = (mpsc::channel(), mpsc::channel());
        let gate = Box::new(Self { asked, go_on: Mutex::new(go_on) });
        let source = ArdevSource {
            context: Box::into_raw(gate).cast(),
            next: Some(gate_next),
            release: Some(gate_release),
            ..ArdevSource::default()
        };
        (source, is_asked, goes_on)
    }
}

unsafe extern "C" fn gate_next(
    context: *mut c_void,
    _: *mut *mut ArdevArray,
    _: *mut ArdevError,
) -> c_int {
    let gate = unsafe { &*context.cast::<Gate>() };
    gate.asked.send(()).unwrap();
    let _ = gate.go_on.lock().unwrap().recv();
    0
}

unsafe extern "C" fn gate_release(context: *mut c_void) {
    drop(unsafe { Box::from_raw(context.cast::<Gate>()) });
}

#[test]
fn the_type_of_a_stream_is_told_while_another_thread_waits_for_an_array() {
    let (source, is_asked, goes_on) = Gate::source();
    let stream = Stream::of(&source);
    let reader = std::thread::spawn(move || {
        let stream = stream;
        stream.next().map_err(|error| error.to_string())
    });
    is_asked.recv_timeout(PATIENCE).unwrap();
    let (sender, told) = mpsc::channel();
    let asker = std::thread::spawn(move || {
        let stream = stream;
        let answers = (stream.device_type().is_ok(), stream.schema().is_ok());
        sender.send(answers).unwrap();
        // Takes its turn after the reader, whose end is that of the stream.
        stream.next().map_err(|error| error.to_string())
    });
    let answers = told.recv_timeout(PATIENCE);
    goes_on.send(()).unwrap();
    assert_eq!(answers, Ok((true, true)));
    assert_eq!(reader.join().unwrap(), Ok(false));
    assert_eq!(asker.join().unwrap(), Ok(false));
    stream.free();
}

#[test]
fn a_stream_that_was_handed_on_tells_nothing() {
    let (source, _, _) = Gate::source();
    let stream = Stream::of(&source);
    let mut out = ArrowDeviceArrayStream::empty();
    call(|error| unsafe { ardev_stream_export(stream.0, ptr::null(), &mut out, error) }).unwrap();
    drop(unsafe { arrow_device::ArrayStream::import(&mut out) }.unwrap());
    let errors = [
        stream.device_type().map(drop).unwrap_err(),
        stream.schema().unwrap_err(),
        stream.next().map(drop).unwrap_err(),
        stream.export().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("handed on"), "{error}");
    }
    stream.free();
}

#[cfg(unix)]
mod in_a_child {
    use super::*;
    use crate::support::lab::Lab;
    use crate::support::objects::{copy, numbers};
    use arrow_device_testkit::process::{alone, forked};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    // Requirement: SAF-27
    #[test]
    fn a_stream_that_another_thread_was_reading_at_the_fork_answers() {
        alone(|| {
            let (source, is_asked, goes_on) = Gate::source();
            let stream = Stream::of(&source);
            let reader = std::thread::spawn(move || {
                let stream = stream;
                stream.next().unwrap()
            });
            is_asked.recv_timeout(PATIENCE).unwrap();
            forked(|| {
                let kind = |outcome: Result<()>| outcome.err().map(|error| error.kind());
                let kinds = [
                    kind(stream.device_type().map(drop)),
                    kind(stream.schema()),
                    kind(stream.next().map(drop)),
                    kind(stream.export()),
                ];
                stream.free();
                let refused = Some(ErrorKind::Unsupported);
                match kinds == [None, None, refused, refused] {
                    true => Ok(()),
                    false => Err(format!("{kinds:?}")),
                }
            });
            goes_on.send(()).unwrap();
            assert!(!reader.join().unwrap());
            stream.free();
        });
    }

    // Requirement: SAF-27
    #[test]
    fn a_stream_that_nobody_was_reading_at_the_fork_goes_on_in_the_child() {
        alone(|| {
            let (source, is_asked, goes_on) = Gate::source();
            let stream = Stream::of(&source);
            goes_on.send(()).unwrap();
            forked(|| {
                let next = stream.next().map_err(|error| error.to_string())?;
                stream.free();
                if next { Err("there is no array".into()) } else { Ok(()) }
            });
            assert!(!stream.next().unwrap());
            drop(is_asked);
            stream.free();
        });
    }

    /// A device whose callbacks wait for the test, once `is_armed` says so; with what tells of such
    /// a wait and what ends it.
    struct Waiting {
        device: *mut ArdevDevice,
        is_armed: Arc<AtomicBool>,
        is_asked: Receiver<()>,
        goes_on: Sender<()>,
    }

    impl Waiting {
        /// Waits in the function of this name.
        fn in_function(function: &'static str) -> Self {
            let ((asked, is_asked), (goes_on, go_on)) = (mpsc::channel(), mpsc::channel());
            let (is_armed, go_on) = (Arc::new(AtomicBool::new(false)), Mutex::new(go_on));
            let armed = is_armed.clone();
            let hook = move |called: &str| {
                if called == function && armed.swap(false, Ordering::SeqCst) {
                    asked.send(()).unwrap();
                    go_on.lock().unwrap().recv().unwrap();
                }
            };
            let lab = Lab { says: AtomicI32::new(1), hook: Box::new(hook) };
            Self { device: lab.register(7000).0, is_armed, is_asked, goes_on }
        }

        fn queue(&self) -> *mut ArdevQueue {
            made(|out, error| unsafe { ardev_queue_open(self.device, out, error) }).unwrap()
        }

        /// Asks on another thread, and once more in a child while that one waits.
        fn ask_in_a_child(&self, ask: &(impl Fn() -> Result<()> + Sync), end: impl FnOnce()) {
            self.is_armed.store(true, Ordering::SeqCst);
            std::thread::scope(|threads| {
                let asking = threads.spawn(ask);
                self.is_asked.recv_timeout(PATIENCE).expect("the driver is asked");
                let in_child = || {
                    forked(|| {
                        let outcome = ask();
                        end();
                        match outcome.map_err(|error| error.kind()) {
                            Err(ErrorKind::Unsupported) => Ok(()),
                            other => Err(format!("{other:?}")),
                        }
                    });
                };
                // The thread goes on in any case, for the test ends after it.
                let outcome = catch_unwind(AssertUnwindSafe(in_child));
                self.goes_on.send(()).unwrap();
                assert!(asking.join().unwrap().is_ok());
                outcome.unwrap_or_else(|panic| resume_unwind(panic));
            });
        }
    }

    /// A pointer that threads may have.
    struct Anywhere<T>(*mut T);

    // SAFETY: rule 4 of the header: functions can be called on any thread, with the same objects.
    unsafe impl<T> Sync for Anywhere<T> {}

    impl<T> Anywhere<T> {
        fn get(&self) -> *mut T {
            self.0
        }
    }

    // Requirement: SAF-27
    #[test]
    fn a_buffer_that_another_thread_asked_for_its_place_at_the_fork_answers() {
        alone(|| {
            let lab = Waiting::in_function("wait");
            let (own, other) = (lab.queue(), lab.queue());
            let buffer =
                made(|out, error| unsafe { ardev_buffer_allocate(own, 64, out, error) }).unwrap();
            let (buffer, other) = (Anywhere(buffer), Anywhere(other));
            let ask = || {
                let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
                call(|error| unsafe {
                    ardev_buffer_place(buffer.get(), other.get(), &mut place, error)
                })
            };
            lab.ask_in_a_child(&ask, || unsafe { ardev_buffer_free(buffer.get()) });
        });
    }

    unsafe extern "C" fn submit(context: *mut c_void) -> c_int {
        unsafe { &*context.cast::<AtomicBool>() }.store(true, Ordering::SeqCst);
        0
    }

    // Requirement: SAF-27
    #[test]
    fn nothing_is_submitted_to_a_queue_of_the_parent() {
        alone(|| {
            let lab = Lab { says: AtomicI32::new(1), hook: Box::new(|_| ()) };
            let (device, _) = lab.register(7002);
            let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
            let is_submitted = AtomicBool::new(false);
            let context = (&raw const is_submitted).cast_mut().cast();
            let ask =
                || call(|error| unsafe { ardev_queue_submit(queue, Some(submit), context, error) });
            forked(|| {
                let kind = ask().err().map(|error| error.kind());
                match (kind, is_submitted.load(Ordering::SeqCst)) {
                    (Some(ErrorKind::Unsupported), false) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            });
            ask().unwrap();
            assert!(is_submitted.load(Ordering::SeqCst));
        });
    }

    // Requirement: SAF-27
    #[test]
    fn a_view_that_another_thread_asked_for_a_buffer_at_the_fork_answers() {
        alone(|| {
            let lab = Waiting::in_function("map");
            let array = copy(&numbers(5), lab.queue(), ptr::null()).unwrap();
            let view =
                made(|out, error| unsafe { ardev_view_open(array.0, ptr::null(), out, error) });
            let view = Anywhere(view.unwrap());
            let ask = || {
                let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
                call(|error| unsafe { ardev_view_buffer(view.get(), 1, &mut place, error) })
            };
            lab.ask_in_a_child(&ask, || unsafe { ardev_view_free(view.get()) });
            unsafe { ardev_view_free(view.get()) };
        });
    }
}
