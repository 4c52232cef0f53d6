//! How a simulator is started or reached, and how the parts of its design are named.

#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
#[cfg(unix)]
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device_vpi_protocol::{Hello, Unit};

/// The Verilog of the design that is simulated where no other one is named: a module `ram_with_dma`
/// with a memory and an engine that copies. Designs of other people can use the module.
pub const RAM_WITH_DMA: &str = include_str!("../design/ram_with_dma.v");
/// A top module, `arrow_device_top`, with a clock and an instance `ram` of [`RAM_WITH_DMA`].
pub const TOP: &str = include_str!("../design/top.v");

/// A simulator with its design.
///
/// ```no_run
/// use arrow_device_vpi::{Dma, Options};
///
/// let options = Options::verilog(["accelerator.v", "testbench.v"])
///     .memory("tb.memory.words")
///     .dma(Dma {
///         start: "tb.dma.start".into(),
///         done: "tb.dma.completed".into(),
///         source: "tb.dma.source".into(),
///         destination: "tb.dma.destination".into(),
///         length: "tb.dma.length".into(),
///     });
/// let device = arrow_device_vpi::open_with(&options)?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) source: Source,
    pub(crate) memory: String,
    pub(crate) dma: Option<Dma>,
    pub(crate) error: Option<String>,
    pub(crate) copy_unit: u64,
    pub(crate) run_first: u64,
    pub(crate) time_limit: u64,
    pub(crate) wall_limit: Duration,
    pub(crate) patience: Duration,
    pub(crate) is_quiet: bool,
    pub(crate) arguments: Vec<String>,
}

/// Where the simulator comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Icarus compiles and runs the design of this crate.
    BuiltIn,
    /// Icarus compiles and runs these sources.
    Verilog(Vec<PathBuf>),
    /// Icarus runs this compiled design.
    Compiled(PathBuf),
    /// Somebody runs a simulator, whose module listens there.
    Socket(PathBuf),
    /// Somebody runs a simulator, whose module is at the other end, until it was opened.
    #[cfg(unix)]
    Connection(Arc<Mutex<Option<UnixStream>>>),
}

/// The registers of the engine that copies inside the memory, by their paths in the design.
///
/// The engine begins when it is idle and `start` is 1 at an edge of its clock. It changes `done`
/// when it has copied, and `start` is set back to 0 in that moment. Where the next copy is waiting,
/// `start` is 1 again before the next edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dma {
    /// The register that starts the engine.
    pub start: String,
    /// A counter of what the engine has completed. Every change of it counts as one completion.
    pub done: String,
    /// The register for the address of the source.
    pub source: String,
    /// The register for the address of the destination.
    pub destination: String,
    /// The register for the number of bytes.
    pub length: String,
}

impl Options {
    fn new(source: Source) -> Self {
        let register = |name: &str| format!("arrow_device_top.ram.{name}");
        Self {
            source,
            memory: register("mem"),
            dma: Some(Dma {
                start: register("start"),
                done: register("done"),
                source: register("src"),
                destination: register("dst"),
                length: register("len"),
            }),
            error: Some(register("error")),
            copy_unit: 1,
            run_first: 0,
            time_limit: 0,
            wall_limit: Duration::from_secs(60),
            patience: Duration::from_secs(30),
            is_quiet: false,
            arguments: Vec::new(),
        }
    }

    /// The design of this crate, compiled and run by Icarus (`iverilog`, `vvp`).
    pub fn built_in() -> Self {
        Self::new(Source::BuiltIn)
    }

    /// A design in Verilog, compiled and run by Icarus. The names of its parts are those of the
    /// design of this crate, unless [`memory`](Self::memory), [`dma`](Self::dma) and
    /// [`error`](Self::error) say something else.
    pub fn verilog<P: Into<PathBuf>>(sources: impl IntoIterator<Item = P>) -> Self {
        Self::new(Source::Verilog(sources.into_iter().map(Into::into).collect()))
    }

    /// A design that `iverilog` has compiled, run by `vvp`. Names are as for
    /// [`verilog`](Self::verilog).
    pub fn compiled(design: impl Into<PathBuf>) -> Self {
        Self::new(Source::Compiled(design.into()))
    }

    /// A simulator that somebody has started with the module of this crate, where
    /// `ARROW_DEVICE_VPI_SOCKET` named this socket. Names are as for [`verilog`](Self::verilog).
    pub fn socket(path: impl Into<PathBuf>) -> Self {
        Self::new(Source::Socket(path.into()))
    }

    /// A simulator that this process or another one runs, with the module at the other end of this
    /// socket. Names are as for [`verilog`](Self::verilog). One device can be opened with these
    /// options and their clones. `arrow-device-vpi`'s page says how a program runs a simulator of
    /// its own.
    #[cfg(unix)]
    pub fn connection(socket: impl Into<UnixStream>) -> Self {
        Self::new(Source::Connection(Arc::new(Mutex::new(Some(socket.into())))))
    }

    /// What the environment names: a socket, `ARROW_DEVICE_VPI_CONNECT`, or else sources in Verilog
    /// with colons between, `ARROW_DEVICE_VPI_DESIGN`, or else the design of this crate.
    pub fn from_environment() -> Self {
        if let Some(path) = std::env::var_os("ARROW_DEVICE_VPI_CONNECT") {
            return Self::socket(path);
        }
        match std::env::var_os("ARROW_DEVICE_VPI_DESIGN") {
            Some(sources) => Self::verilog(std::env::split_paths(&sources)),
            None => Self::built_in(),
        }
    }

    /// Sets the path of the memory in the design: an array of words of whole bytes, such as
    /// `reg [511:0] words [0:65535]`. Byte 0 of a word is its lowest bits.
    pub fn memory(mut self, path: impl Into<String>) -> Self {
        self.memory = path.into();
        self
    }

    /// Sets the engine that copies inside the memory.
    pub fn dma(mut self, dma: Dma) -> Self {
        self.dma = Some(dma);
        self
    }

    /// Says that the design has no engine that copies. Bytes are then copied through the VPI, in no
    /// simulated time.
    pub fn without_dma(mut self) -> Self {
        self.dma = None;
        self
    }

    /// Sets the path of a register in which the design reports faults, such as errors of a bus.
    /// Where the register is not 0 behind a copy or a job, the work has failed. The register is
    /// then set back to 0. `None` for a design without one.
    pub fn error(mut self, path: Option<&str>) -> Self {
        self.error = path.map(str::to_owned);
        self
    }

    /// Sets the unit of the engine's copies in bytes: the engine copies multiples of this number,
    /// at multiples of this number. 1 unless this is called.
    pub fn copy_unit(mut self, unit: u64) -> Self {
        self.copy_unit = unit.clamp(1, 4096).next_power_of_two();
        self
    }

    /// Sets how much simulated time goes by before anything is asked of the design, for instance
    /// until a reset is over. The unit is the simulator's precision.
    pub fn run_first(mut self, time: u64) -> Self {
        self.run_first = time;
        self
    }

    /// Sets how much simulated time one copy of the engine, or one job, may take, in units of the
    /// simulator's precision. What takes longer counts as stuck, and the device as lost. 0, which
    /// is the usual value, is any time.
    pub fn time_limit(mut self, time: u64) -> Self {
        self.time_limit = time;
        self
    }

    /// Sets the same limit on the clock on the wall. Zero is any time; the usual value is a minute.
    pub fn wall_limit(mut self, time: Duration) -> Self {
        self.wall_limit = time;
        self
    }

    /// Sets how long the simulator may be silent before the device counts as lost. The usual value
    /// is 30 seconds. The module tells twice a second that it is at work.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience.max(Duration::from_millis(1));
        self
    }

    /// Sets whether what the simulator prints is thrown away. Otherwise the simulator prints where
    /// this process does.
    pub fn quiet(mut self, is_quiet: bool) -> Self {
        self.is_quiet = is_quiet;
        self
    }

    /// Adds an argument for the design, such as `+seed=7`.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The first message to the module.
    pub(crate) fn hello(&self) -> Hello {
        let dma = self.dma.clone().unwrap_or_default();
        Hello {
            memory: self.memory.clone(),
            dma: Unit { start: dma.start, done: dma.done },
            dma_registers: [dma.source, dma.destination, dma.length],
            error: self.error.clone().unwrap_or_default(),
            time_limit: self.time_limit,
            wall_limit: u64::try_from(self.wall_limit.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Default for Options {
    /// [`built_in`](Self::built_in).
    fn default() -> Self {
        Self::built_in()
    }
}
