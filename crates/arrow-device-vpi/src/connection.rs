//! The connection to the module in the simulator: one request, and the answer to it.
//!
//! The process at the other end is not trusted. An answer is bounded by what was asked for, it has
//! to come within the time that the options allow, and everything else ends the connection. The
//! module may say that it is alive while it works. Such a message counts as a sign of life; it does
//! not prolong the time that the request has as a whole, where there is such a limit.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use arrow_device_vpi_protocol::{Answer, Done, Hello, Outcome, Request, Step, Welcome};

/// What an answer has beside the data that was asked for.
const BESIDE: u64 = 8192;
/// A write to a simulator that is gone is an error, and not the end of a process that leaves
/// SIGPIPE as it was.
#[cfg(not(target_vendor = "apple"))]
const WITHOUT_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
/// Apple's systems have an option of the socket instead, which the standard library sets.
#[cfg(target_vendor = "apple")]
const WITHOUT_SIGNAL: libc::c_int = 0;
/// The longest time that is waited for anything. Longer ones count as this one.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// A connection, and how long it is waited for.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    /// How long the module may be silent.
    patience: Duration,
    /// How long one job may take. Zero is any time.
    job: Duration,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream, patience: Duration, job: Duration) -> Self {
        Self { stream, patience: patience.min(LONGEST), job: job.min(LONGEST) }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Tells the module that nothing more comes.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Names the parts of the design.
    pub(crate) fn greet(&mut self, hello: Hello) -> Result<Welcome, String> {
        self.send(&Request::Hello(hello))?;
        match self.answer(0, Duration::ZERO)? {
            Answer::Welcome(welcome) => Ok(welcome),
            _ => Err("the simulator answered what was not asked".into()),
        }
    }

    /// Has steps done.
    pub(crate) fn run(&mut self, steps: Vec<Step>) -> Result<Done, String> {
        let wanted: u64 = steps.iter().map(Step::answer_len).sum();
        let count = steps.len();
        let jobs = steps.iter().filter(|step| takes_time(step)).count();
        self.send(&Request::Steps(steps))?;
        let limit = self.job.saturating_mul(u32::try_from(jobs).unwrap_or(u32::MAX));
        match self.answer(wanted, limit)? {
            Answer::Done(done) => match &done.outcome {
                Outcome::Well if done.data.len() as u64 != wanted => {
                    Err("the simulator's answer has another length than was asked for".into())
                }
                Outcome::Fault { step, .. }
                | Outcome::Refused { step, .. }
                | Outcome::Stuck { step }
                    if *step as usize >= count =>
                {
                    Err("the simulator speaks of a step that there was not".into())
                }
                _ => Ok(done),
            },
            _ => Err("the simulator answered what was not asked".into()),
        }
    }

    /// Reads what came without a question: why the simulation has ended.
    pub(crate) fn farewell(&mut self) -> String {
        match self.answer(0, Duration::ZERO) {
            Ok(_) => "the simulator spoke without a question".into(),
            Err(reason) => reason,
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        let mut stream = Deadline { stream: &self.stream, deadline };
        arrow_device_vpi_protocol::send(&mut stream, &request.encode())
            .map_err(|error| self.why(&error))
    }

    /// Waits for an answer with so many bytes of data.
    fn answer(&mut self, wanted: u64, limit: Duration) -> Result<Answer, String> {
        let last = (!self.job.is_zero()).then(|| Instant::now() + limit + self.patience);
        loop {
            let silence = Instant::now() + self.patience;
            let deadline = last.map_or(silence, |last| last.min(silence));
            let mut stream = Deadline { stream: &self.stream, deadline };
            let received =
                arrow_device_vpi_protocol::receive(&mut stream, wanted.saturating_add(BESIDE));
            let (kind, body) = received
                .map_err(|error| self.why(&error))?
                .ok_or("the simulator has closed the connection")?;
            match Answer::decode(kind, &body).map_err(|error| error.to_string())? {
                Answer::Alive => {}
                Answer::Ended(reason) => return Err(reason),
                answer => return Ok(answer),
            }
        }
    }

    fn why(&self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("the simulator gave no answer within {:?}", self.patience)
            }
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => "the simulator has closed the connection".into(),
            _ => error.to_string(),
        }
    }
}

/// Whether simulated time goes on in a step.
fn takes_time(step: &Step) -> bool {
    matches!(step, Step::Copy { .. } | Step::Job { .. } | Step::Run { .. })
}

/// Reads and writes until a moment.
struct Deadline<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Deadline<'_> {
    /// The time that is left.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Deadline<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Deadline<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        let (place, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the descriptor is open, and the bytes are there (POSIX, `send`).
        let sent = unsafe { libc::send(self.stream.as_raw_fd(), place, len, WITHOUT_SIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
