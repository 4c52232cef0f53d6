//! The connection to the module in the simulator: one request, and the answer to it.
//!
//! The process at the other end is not trusted. An answer is bounded by what was asked for, it has
//! to come within the time that the options allow, and everything else ends the connection. The
//! module may say that it is alive while it works. Such a message counts as a sign of life; it does
//! not prolong the time that the request has as a whole, where there is such a limit. There is none
//! for a step that only lets simulated time go on: how long that takes is the program's choice.

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
        // The module may have to wait for a job that an earlier host has left.
        match self.answer(0, self.limit(1))? {
            Answer::Welcome(welcome) => Ok(welcome),
            _ => Err("the simulator answered what was not asked".into()),
        }
    }

    /// Has steps done.
    pub(crate) fn run(&mut self, steps: Vec<Step>) -> Result<Done, String> {
        let wanted: u64 = steps.iter().map(Step::answer_len).sum();
        let count = steps.len();
        let limit = self.limit_of(&steps);
        self.send(&Request::Steps(steps))?;
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
        match self.answer(0, Some(self.patience)) {
            Ok(_) => "the simulator spoke without a question".into(),
            Err(reason) => reason,
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        let mut stream = Deadline { stream: &self.stream, deadline };
        arrow_device_vpi_protocol::send(&mut stream, &request.encode())
            .map_err(|error| self.why(&error, None))
    }

    /// How long so many jobs may take together. `None` is any time.
    fn limit(&self, jobs: usize) -> Option<Duration> {
        if self.job.is_zero() {
            return None;
        }
        let jobs = self.job.checked_mul(u32::try_from(jobs).ok()?)?;
        jobs.checked_add(self.patience)
    }

    /// How long a request may take as a whole. `None` is any time.
    fn limit_of(&self, steps: &[Step]) -> Option<Duration> {
        if steps.iter().any(|step| matches!(step, Step::Run { .. })) {
            return None;
        }
        let is_job = |step: &&Step| matches!(step, Step::Copy { .. } | Step::Job { .. });
        self.limit(steps.iter().filter(is_job).count())
    }

    /// Waits for an answer with so many bytes of data, at most so long.
    fn answer(&mut self, wanted: u64, limit: Option<Duration>) -> Result<Answer, String> {
        let last = limit.and_then(|limit| Instant::now().checked_add(limit).zip(Some(limit)));
        let mut is_alive = false;
        loop {
            let silence = Instant::now() + self.patience;
            let (deadline, limit) = match last {
                Some((last, limit)) if is_alive && last < silence => (last, Some(limit)),
                _ => (silence, None),
            };
            let mut stream = Deadline { stream: &self.stream, deadline };
            let received =
                arrow_device_vpi_protocol::receive(&mut stream, wanted.saturating_add(BESIDE));
            let (kind, body) = received
                .map_err(|error| self.why(&error, limit))?
                .ok_or("the simulator has closed the connection")?;
            match Answer::decode(kind, &body).map_err(|error| error.to_string())? {
                Answer::Alive => is_alive = true,
                Answer::Ended(reason) => return Err(reason),
                answer => return Ok(answer),
            }
        }
    }

    /// Why a message was not sent or received. Where the time is over, that is the time of the
    /// whole request, if it is given, and otherwise the time that the module may be silent.
    fn why(&self, error: &io::Error, limit: Option<Duration>) -> String {
        let late = |time: Duration| format!("the simulator gave no answer within {time:?}");
        match (error.kind(), limit) {
            (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, Some(limit)) => {
                late(limit) + ", although it said that it was at work"
            }
            (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, None) => late(self.patience),
            (
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset,
                _,
            ) => "the simulator has closed the connection".into(),
            _ => error.to_string(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: Step = Step::Copy { from: 0, to: 64, len: 8 };

    /// A connection, and its other end, which speaks these messages at once.
    fn with(patience: Duration, job: Duration, spoken: &[Answer]) -> (Connection, UnixStream) {
        let (stream, mut module) = UnixStream::pair().unwrap();
        for answer in spoken {
            module.write_all(&answer.encode()).unwrap();
        }
        (Connection::new(stream, patience, job), module)
    }

    #[test]
    fn what_jobs_may_take_is_the_limit_of_each_and_the_patience() {
        let second = Duration::from_secs(1);
        let (connection, _module) = with(second * 3, second * 10, &[]);
        let read = Step::Read { at: 0, len: 8 };
        assert_eq!(connection.limit_of(&[COPY, read.clone(), COPY]), Some(second * 23));
        assert_eq!(connection.limit_of(&[read]), Some(second * 3));
        // How long simulated time goes on is the program's choice.
        assert_eq!(connection.limit_of(&[Step::Run { time: 1 }]), None);
        let (connection, _module) = with(second * 3, Duration::ZERO, &[]);
        assert_eq!(connection.limit_of(&[COPY]), None);
        let (connection, _module) = with(Duration::MAX, Duration::MAX, &[]);
        assert!(connection.limit_of(&vec![COPY; 5000]).is_some());
    }

    #[test]
    fn the_reason_names_the_time_that_is_over() {
        let (patience, spoken) = (Duration::from_millis(50), [const { Answer::Alive }; 3]);
        // The signs of life come after the request, so the silence ends later than the whole.
        let (mut connection, _module) = with(patience, Duration::from_nanos(1), &spoken);
        let text = "the simulator gave no answer within 50.000001ms, although it said that it was \
                    at work";
        assert_eq!(connection.run(vec![COPY]).unwrap_err(), text);
        let (mut connection, _module) = with(patience, Duration::from_secs(60), &spoken);
        let text = "the simulator gave no answer within 50ms";
        assert_eq!(connection.run(vec![COPY]).unwrap_err(), text);
        let (mut connection, _module) = with(patience, Duration::from_nanos(1), &spoken);
        assert_eq!(connection.run(vec![Step::Run { time: 7 }]).unwrap_err(), text);
    }
}
