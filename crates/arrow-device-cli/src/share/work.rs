//! Serving the batches of a file to the processes that connect.

use std::io::{self, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrow_device::{Array, ArrayStream, DeviceType, Schema};
use arrow_device_share::{Sender, to_shareable};
use clap::ArgMatches;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::socket::{Socket, SocketFile};
use crate::backends::{self, Name, Opened};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::json::Json;
use crate::units;

/// How many processes are served at once.
const AT_ONCE: u32 = 16;

/// The batches of the file, in memory that other processes can open.
struct Shared {
    schema: Schema,
    device_type: DeviceType,
    batches: Vec<Array>,
    /// Whether the processes that connect are trusted not to write to the memory.
    trusts: bool,
}

pub(super) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let path = |name| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default();
    let (input, socket) = (path("INPUT"), path("socket"));
    files::has_name(&socket)?;
    let connections = matches.get_one::<u32>("connections").copied();
    let name = matches.get_one::<String>("device").map_or("cpu", String::as_str);
    let opened = backends::open(Name::parse(name)?)?;
    let trusts = matches.get_flag("trust");
    if opened.device.sharing_needs_trust() && !trusts {
        let message = format!(
            "whoever gets memory of {} can write to it; `--trust` shares it with processes that do not",
            opened.name
        );
        return Err(Failure::new(message));
    }
    let shared = Shared::read(&input, &opened, trusts)?;

    let socket = Socket::new(&socket)?;
    end_by_signals(socket.file().clone())?;
    if matches.get_flag("json") {
        writeln!(out, "{}", shared.to_json(&input, &opened, matches))?;
    } else {
        shared.tell(&input, &opened, out)?;
    }
    // Whoever reads this may connect now.
    out.flush()?;
    shared.serve_all(&socket, connections)?;

    drop((shared, socket));
    arrow_device::deferred::wait_until_released(Duration::from_secs(10))?;
    opened.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Has a signal remove the socket and end the process, from a thread that waits for one: others may
/// be in the middle of any call.
fn end_by_signals(socket: SocketFile) -> Outcome<()> {
    let (mut signalled, signal) = UnixStream::pair()?;
    for number in [SIGINT, SIGTERM] {
        // Stays open as long as the process.
        pipe::register(number, signal.try_clone()?)?;
    }
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if signalled.read_exact(&mut [0]).is_ok() {
            socket.remove();
            // There is nobody to tell if this fails.
            let _ =
                writeln!(io::stderr(), "arrow-device: interrupted, and nothing is shared any more");
            std::process::exit(130);
        }
    })?;
    Ok(())
}

impl Shared {
    /// Reads a file to memory of the device that other processes can open.
    fn read(input: &Path, opened: &Opened, trusts: bool) -> Outcome<Self> {
        let source = files::open(input)?;
        let copied = source.batches.map(|batch| to_shareable(batch?.as_array(), &opened.device));
        let batches = copied.collect::<Result<Vec<Array>, _>>();
        let batches = batches.map_err(|error| Failure::from(error).during(input.display()))?;
        let device_type = opened.device.id().device_type;
        Ok(Self { schema: source.schema, device_type, batches, trusts })
    }

    fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.len() as u64).sum()
    }

    fn tell(&self, input: &Path, opened: &Opened, out: &mut dyn Write) -> Outcome<()> {
        let batches = units::counted(self.batches.len() as u64, "batch", "batches");
        let rows = units::counted(self.rows(), "row", "rows");
        let held = units::bytes(opened.device.held().allocated);
        writeln!(out, "{}: {batches}, {rows}, {held} on {}", input.display(), opened.name)?;
        Ok(())
    }

    fn to_json(&self, input: &Path, opened: &Opened, matches: &ArgMatches) -> Json {
        let socket = matches.get_one::<PathBuf>("socket").map(|path| path.display().to_string());
        Json::Object(vec![
            ("source", input.display().to_string().into()),
            ("socket", Json::or_null(socket)),
            ("device", opened.name.to_string().into()),
            ("batches", self.batches.len().into()),
            ("rows", self.rows().into()),
            ("bytes", opened.device.held().allocated.into()),
        ])
    }

    /// Serves so many processes, or without an end.
    fn serve_all(&self, socket: &Socket, connections: Option<u32>) -> Outcome<()> {
        let left = connections.map(AtomicU32::new);
        let threads = connections.map_or(AT_ONCE, |connections| connections.min(AT_ONCE));
        std::thread::scope(|scope| {
            let serve = || self.serve_some(socket, left.as_ref());
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(serve)).collect();
            // A thread that panicked has told so.
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        })
    }

    /// Serves one process after the other, as long as there are some left to serve.
    fn serve_some(&self, socket: &Socket, left: Option<&AtomicU32>) -> Outcome<()> {
        let take = |left: &AtomicU32| {
            let taken =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            taken.is_ok()
        };
        while left.is_none_or(take) {
            let (connection, _) = socket.listener.accept()?;
            let arrays = self.batches.iter().cloned().map(Ok).collect::<Vec<_>>();
            let stream = ArrayStream::new(self.schema.clone(), self.device_type, arrays);
            // A process that goes before the end has seen enough, and one that breaks the protocol
            // hurts nobody else.
            let sender = Sender::new(connection);
            let sender = match self.trusts {
                // SAFETY: UNS-38: whoever says `--trust` answers for the processes that connect,
                // which are those of one user.
                true => unsafe { sender.trusting() },
                false => sender,
            };
            let _ = sender.serve(stream);
        }
        Ok(())
    }
}
