//! Arrays of one process in another one: `Ticket`, `Sender` and `Receiver` of `arrow_device.share`.
//!
//! A descriptor that Python passes is owned from then on, and closed whatever the outcome. A wait
//! that has a limit of its own is made in pieces, between which signals are looked at. Whatever
//! else waits does so on a thread, which goes on after Ctrl-C until its work is done.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::driver::Turns;
use arrow_device::{Array, Device, DeviceId, Error, ErrorKind, Result};
use arrow_device_share as share;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::{self, PyArray, wrap_chunk};
use crate::attach::AtEnd;
use crate::error::{OrRaise, invalid};
use crate::interrupt::{self, LOOK};
use crate::items::Failure;
use crate::iterable;
use crate::stream::{self, PyStream};
use crate::{backends, device};

/// An object of Python's that may be used by several threads, and is closed once.
#[derive(Debug)]
struct Open<T>(Mutex<Option<T>>);

impl<T> Open<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(Some(value)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<T> {
        self.lock().take()
    }
}

fn closed(what: &str) -> PyErr {
    invalid(format!("the {what} is closed"))
}

/// A descriptor that Python passes: a number, or an object that gives its own one up.
fn own(object: &Bound<'_, PyAny>) -> PyResult<OwnedFd> {
    let py = object.py();
    let number = object.getattr_opt(intern!(py, "__index__"))?;
    let given = match number {
        Some(number) => number.call0()?,
        None => match object.getattr_opt(intern!(py, "detach"))? {
            Some(detach) => detach.call0()?,
            None => {
                let message = "a socket or a descriptor is wanted, or an object that gives its descriptor up by `detach()`";
                return Err(PyTypeError::new_err(message));
            }
        },
    };
    let fd = match given.extract::<i32>() {
        Ok(fd) if fd >= 0 => fd,
        Err(error) if !error.is_instance_of::<PyOverflowError>(py) => return Err(error),
        _ => return Err(invalid(format!("{given} is no descriptor"))),
    };
    // The process ends where a descriptor is closed that is not open.
    py.import(intern!(py, "os"))?.call_method1(intern!(py, "fstat"), (fd,))?;
    // SAFETY: the documentation of `OwnedFd` asks for an open descriptor that nobody else owns:
    // `detach` gives such a one up, and a program that passes a number answers for it, as it does
    // for `socket.socket(fileno=...)`.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The devices that were named, opened; the host where none were.
fn opened(py: Python<'_>, names: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Device>> {
    let Some(names) = names else { return Ok(vec![Device::host()]) };
    iterable::all(names, |name| Ok(device::open(py, device::named(&name)?)?.device))
}

/// A time limit as Python has it.
fn limit(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    timeout.map(interrupt::seconds).transpose()
}

/// Waits in pieces, between which signals are looked at. `look` answers whether the wait is over.
fn in_pieces<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut look: impl FnMut(Duration) -> Result<Option<T>> + Send,
) -> PyResult<Option<T>> {
    let start = Instant::now();
    loop {
        let left =
            timeout.map_or(LOOK, |timeout| timeout.saturating_sub(start.elapsed()).min(LOOK));
        let came = py.detach(|| look(left)).or_raise()?;
        if came.is_some() || timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
            return Ok(came);
        }
        py.check_signals()?;
    }
}

/// One array for another process: a descriptor that stands for it.
///
/// The array lies in memory that other processes can open (see ``to_shareable``). Send the
/// descriptor to another process in any way that carries descriptors, or let a child inherit it;
/// ``open`` makes the array of it there, once. The ``sender`` holds the array until the other
/// process has finished with it. A ticket that is closed unopened releases the array.
///
/// >>> import arrow_device as ad
/// >>> from arrow_device import share
/// >>> ticket = share.Ticket(share.to_shareable(ad.array([1, None, 3])))
/// >>> there = share.open(ticket)      # in another process
/// >>> there.to_pylist(), ticket.sender.held
/// ([1, None, 3], 1)
/// >>> del there
/// >>> ticket.sender.wait()
#[pyclass(frozen, module = "arrow_device.share", name = "Ticket")]
#[derive(Debug)]
pub(crate) struct PyTicket {
    fd: Open<OwnedFd>,
    sender: Py<PySender>,
}

#[pymethods]
impl PyTicket {
    #[new]
    fn new(array: &Bound<'_, PyArray>) -> PyResult<Self> {
        let py = array.py();
        let shared = array.get().array().clone();
        interrupt::wait(py, &shared)?;
        let (fd, sender) = py.detach(|| share::share(&shared)).or_raise()?;
        Ok(Self { fd: Open::new(fd), sender: Py::new(py, PySender::of(sender))? })
    }

    /// What holds the array.
    #[getter]
    fn sender(&self, py: Python<'_>) -> Py<PySender> {
        self.sender.clone_ref(py)
    }

    /// The descriptor, which stays the ticket's.
    fn fileno(&self) -> PyResult<i32> {
        self.fd.lock().as_ref().map(AsRawFd::as_raw_fd).ok_or_else(|| closed("ticket"))
    }

    /// The descriptor, which is the caller's from now on.
    fn detach(&self) -> PyResult<i32> {
        self.fd.take().map(IntoRawFd::into_raw_fd).ok_or_else(|| closed("ticket"))
    }

    /// Closes the descriptor. Done by a ``with`` block at its end.
    fn close(&self) {
        drop(self.fd.take());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("ticket"))
    }
}

fn not_pickled(what: &str) -> PyErr {
    let message = format!(
        "a {what} is a descriptor, which a pickle cannot carry; send the array by `multiprocessing`, or the descriptor by \
         `socket.send_fds`"
    );
    crate::error::refused(message)
}

/// Sends arrays to another process, and holds them until that process has finished with them.
///
/// ``socket`` is one end of a connected Unix socket, such as ``socket.socketpair()`` gives, or the
/// number of its descriptor; it is taken over, and closed with the sender. The other end is a
/// ``Receiver``. What is held when the sender is closed stays held until the receiver has finished.
///
/// With ``trust_receiver``, memory is sent to which the receiving process could write, too: that
/// of Vulkan devices. The program then answers for the receiving process, and for every process to
/// which that one gives the memory: none of them writes to it. Memory of a processor is fixed when
/// it is sent: nobody can write to it any more. ``to_shareable`` fixes memory of the host before.
/// With ``fix=False`` memory is sent as it is; where it was not fixed before, the receiver has to
/// say ``trust_sender``. ``patience`` limits for how many seconds a call waits for a
/// receiver that does not read; the connection cannot be used any more after that.
///
/// With ``early``, an array on a device is sent before the work on it is done, to a receiver that
/// says ``early``, too. What is fixed when it is sent is waited for all the same.
///
/// >>> import arrow_device as ad, socket
/// >>> from arrow_device import share
/// >>> here, there = socket.socketpair()
/// >>> with share.Sender(here) as sender:
/// ...     sender.send(share.to_shareable(ad.array([1, 2])))
/// >>> [a.to_pylist() for a in share.Receiver(there)]
/// [[1, 2]]
#[pyclass(frozen, module = "arrow_device.share", name = "Sender")]
#[derive(Debug)]
pub(crate) struct PySender {
    sender: Open<Arc<share::Sender>>,
}

impl PySender {
    fn of(sender: share::Sender) -> Self {
        Self { sender: Open::new(Arc::new(sender)) }
    }

    fn get(&self) -> PyResult<Arc<share::Sender>> {
        self.sender.lock().clone().ok_or_else(|| closed("sender"))
    }
}

#[pymethods]
impl PySender {
    #[new]
    #[pyo3(signature = (socket, *, trust_receiver=false, fix=true, patience=None, early=false))]
    fn new(
        socket: &Bound<'_, PyAny>,
        trust_receiver: bool,
        fix: bool,
        patience: Option<f64>,
        early: bool,
    ) -> PyResult<Self> {
        let fd = own(socket)?;
        let patience = limit(patience)?;
        let mut sender = share::Sender::new(UnixStream::from(fd));
        if let Some(patience) = patience {
            sender = sender.with_patience(patience);
        }
        if !fix {
            sender = sender.without_fixing();
        }
        if early {
            sender = sender.early();
        }
        if trust_receiver {
            // SAFETY: UNS-38: a program that says `trust_receiver` answers for the processes that
            // get the memory, as the documentation of the class says. Python code that reaches C
            // has no other way to take such an obligation over.
            sender = unsafe { sender.trusting() };
        }
        Ok(Self::of(sender))
    }

    /// Sends an array. Waits until it is ready, unless the sender is ``early``, and until the
    /// system has room for the message; Ctrl-C ends the wait.
    ///
    /// Raises ``NotSupportedError`` for an array in memory that other processes cannot open (see
    /// ``to_shareable``), and ``ProducerError`` once the receiver has gone.
    fn send(&self, array: &Bound<'_, PyArray>) -> PyResult<()> {
        let py = array.py();
        let _end = AtEnd::of(py);
        let (sender, array) = (self.get()?, array.get().array().clone());
        interrupt::interruptible(py, move || sender.send(&array))
    }

    /// Sends whatever ``ad.stream`` takes, array by array as the receiver's ``stream`` asks for
    /// them, and waits until the receiver has finished with all of it. The receiver is told how the
    /// stream ends, also where that is an error. Ctrl-C ends the wait.
    fn serve(&self, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = stream.py();
        let _end = AtEnd::of(py);
        let sender = self.get()?;
        let stream = match stream.cast::<PyStream>() {
            Ok(stream) => stream.clone(),
            Err(_) => Bound::new(py, stream::of(stream, None)?)?,
        };
        let arrays = stream.get().hand_over(py)?;
        let served = interrupt::run_if(py, true, move || sender.serve(arrays))?;
        served.map_err(|error| stream.get().raised(py, error))
    }

    /// How many arrays the receiver still uses; none after it has gone. Never waits.
    #[getter]
    fn held(&self, py: Python<'_>) -> PyResult<usize> {
        let _end = AtEnd::of(py);
        let sender = self.get()?;
        py.detach(|| sender.held()).or_raise()
    }

    /// Waits until the receiver uses none, at most so many seconds. Ctrl-C ends the wait.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let _end = AtEnd::of(py);
        let (sender, timeout) = (self.get()?, limit(timeout)?);
        let is_over = in_pieces(py, timeout, |left| {
            Ok(sender.wait_until_released(Some(left))?.then_some(()))
        })?;
        is_over.ok_or_else(|| late("the receiver still uses arrays of this sender")).or_raise()
    }

    /// The socket, for an event loop: when it can be read, there is something for ``held`` to look
    /// at. It stays the sender's.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.get()?.as_fd().as_raw_fd())
    }

    /// Ends the sender: the receiver comes to its end. Done by a ``with`` block at its end.
    fn close(&self, py: Python<'_>) {
        let _end = AtEnd::of(py);
        drop(self.sender.take());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("sender"))
    }
}

fn late(message: &'static str) -> Error {
    Error::new(ErrorKind::TimedOut, message)
}

/// Receives the arrays of a ``Sender``, which lie in the memory of its process. They are used as
/// any others, and stay usable after the receiver is closed and after the other process has ended.
///
/// ``socket`` is one end of a connected Unix socket, or the number of its descriptor; it is taken
/// over. Memory is opened by the first of the ``devices`` that can open it. What comes is checked,
/// and no number in it is believed. ``array.validate(full=True)`` checks the data itself, and is
/// for arrays of a process that is not trusted, before another library gets them: a library that
/// reads them through C structs knows no lengths, and believes their offsets.
///
/// ``for array in receiver`` receives all that a sender sends; what is of a struct type without
/// nulls is a ``RecordBatch``. What a sender *serves* is received by ``stream``.
///
/// An allocation of more than ``largest_allocation`` bytes is refused. With ``trust_sender``,
/// memory is opened to which the sending process could still write, too: that of Vulkan devices,
/// and that of a ``Sender`` with ``fix=False``. The program then answers for the sending process:
/// it writes to no memory of an array that it sent, as long as the array is used here, and sends
/// the handles that its driver gave, as the driver gave them. Where that is not so, data changes
/// while it is read, and the process may end. A ``Ticket``, too, is a ``socket`` that a receiver
/// takes.
///
/// With ``passing_on``, arrays in host memory that nobody can write to any more can be sent on to a
/// third process without a copy, by a ``Ticket``, a ``Sender``, a ``Server`` or ``multiprocessing``
/// of this process. Each allocation then costs a descriptor as long as it is used.
///
/// With ``early``, a number of seconds, arrays are taken that come before their data, of a
/// ``Sender`` with ``early``. Whoever uses the data waits for it. If the data has not come so many
/// seconds after its array, if the work failed, or if the sender's process ended before, that is a
/// ``DeviceError``.
#[pyclass(frozen, module = "arrow_device.share", name = "Receiver")]
#[derive(Debug)]
pub(crate) struct PyReceiver {
    /// `None` once it was closed or has become a stream. Waited for only while Python is detached.
    receiver: Turns<Option<share::Receiver>>,
}

impl PyReceiver {
    /// Waits for the next array; `None` at the end, and where the time is over.
    fn next(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Option<Array>>> {
        let _end = AtEnd::of(py);
        in_pieces(py, timeout, |left| {
            let mut turn = self.receiver.take_turn("the receiver")?;
            match turn.as_mut().ok_or_else(gone)?.receive_within(left) {
                Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
                came => came.map(Some),
            }
        })
    }

    fn take(&self, py: Python<'_>) -> PyResult<Option<share::Receiver>> {
        py.detach(|| Ok(self.receiver.take_turn("the receiver")?.take())).or_raise()
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the receiver is closed, or has become a stream")
}

#[pymethods]
impl PyReceiver {
    #[new]
    #[pyo3(signature = (
        socket, devices=None, *, largest_allocation=None, trust_sender=false, passing_on=false, early=None
    ))]
    fn new(
        socket: &Bound<'_, PyAny>,
        devices: Option<&Bound<'_, PyAny>>,
        largest_allocation: Option<u64>,
        trust_sender: bool,
        passing_on: bool,
        early: Option<f64>,
    ) -> PyResult<Self> {
        let fd = own(socket)?;
        let early = limit(early)?;
        let devices = opened(socket.py(), devices)?;
        let mut receiver = share::Receiver::new(UnixStream::from(fd), devices);
        if let Some(bytes) = largest_allocation {
            receiver = receiver.largest_allocation(bytes);
        }
        if trust_sender {
            // SAFETY: UNS-38: a program that says `trust_sender` answers for the sending process,
            // as the documentation of the class says. The socket was given up to this receiver,
            // so that nothing else writes to it.
            receiver = unsafe { receiver.trusting() };
        }
        if passing_on {
            receiver = receiver.passing_on();
        }
        if let Some(early) = early {
            receiver = receiver.taking_early(early);
        }
        Ok(Self { receiver: Turns::new(Some(receiver)) })
    }

    /// Waits for the next array, at most so many seconds; ``None`` after the last one. Ctrl-C ends
    /// the wait, and the next call goes on waiting.
    #[pyo3(signature = (timeout=None))]
    fn receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyArray>>> {
        let came = self.next(py, limit(timeout)?)?;
        let came = came.ok_or_else(|| late("nothing came from the sender")).or_raise()?;
        came.map(|array| wrap_chunk(py, array)).transpose()
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyArray>>> {
        self.receive(py, None)
    }

    /// What ``Sender.serve`` sends, as a stream. The sender is asked for so many arrays ahead of
    /// those that were taken out. Waits for the schema; Ctrl-C ends that. To ask the stream for the
    /// next array waits as for any other producer. The receiver is handed over to the stream.
    #[pyo3(signature = (ahead=2))]
    fn stream(&self, py: Python<'_>, ahead: usize) -> PyResult<PyStream> {
        let _end = AtEnd::of(py);
        let receiver = self.take(py)?.ok_or_else(gone).or_raise()?;
        let stream = interrupt::interruptible(py, move || receiver.into_stream(ahead))?;
        Ok(PyStream::new(stream, Failure::default()))
    }

    /// The socket, for an event loop: when it can be read, call ``receive`` with a timeout of 0
    /// until that raises. It stays the receiver's.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        py.detach(|| {
            let turn = self.receiver.take_turn("the receiver")?;
            Ok(turn.as_ref().ok_or_else(gone)?.as_fd().as_raw_fd())
        })
        .or_raise()
    }

    /// Ends the receiver. Done by a ``with`` block at its end.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let _end = AtEnd::of(py);
        self.take(py).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("receiver"))
    }
}

/// The array of a ticket, whose descriptor is taken over; a batch or none, where that is said.
#[pyfunction(name = "_open")]
#[pyo3(signature = (ticket, devices, as_batch=None))]
pub(crate) fn open(
    py: Python<'_>,
    ticket: &Bound<'_, PyAny>,
    devices: Option<&Bound<'_, PyAny>>,
    as_batch: Option<bool>,
) -> PyResult<Py<PyArray>> {
    let _end = AtEnd::of(py);
    let fd = own(ticket)?;
    let devices = opened(py, devices)?;
    let opened = py.detach(|| share::open(fd, devices)).or_raise()?;
    match as_batch {
        None => wrap_chunk(py, opened),
        Some(as_batch) => array::wrap(py, opened, as_batch),
    }
}

/// The same array as one that is no batch.
#[pyfunction(name = "_as_array")]
pub(crate) fn as_array(py: Python<'_>, array: &Bound<'_, PyArray>) -> PyResult<Py<PyArray>> {
    array::wrap(py, array.get().array().clone(), false)
}

/// A copy in memory of a device that other processes can open.
///
/// Memory of the host is fixed at once, and not when it is sent: where a child of `fork` has it,
/// too, it cannot be fixed any more.
#[pyfunction(name = "_to_shareable")]
pub(crate) fn to_shareable(
    array: &Bound<'_, PyArray>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyArray>> {
    let py = array.py();
    let _end = AtEnd::of(py);
    let source = array.get().array().clone();
    let to = device.map_or_else(|| Ok(backends::called(source.device())), device::named)?;
    device::open(py, source.device())?;
    let device = device::open(py, to)?.device;
    let copied = interrupt::interruptible(py, move || {
        let copied = share::to_shareable(&source, &device)?;
        if copied.device() == DeviceId::CPU {
            // Where that fails, because another thread forks, whoever sends the memory is told.
            drop(share::share(&copied));
        }
        Ok(copied)
    })?;
    array::like(array, copied)
}
