//! [`Peer`]: the entry point of a peer, in whatever language it is written.

use std::ffi::c_int;
use std::path::Path;
use std::str::FromStr;

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::abi::{
    ArrowAsyncDeviceStreamHandler, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema,
};
use libloading::Library;

use crate::bench::{Bench, Context, Where};
use crate::notes::Notes;

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Kind {
    /// `ArrowSchema` and `ArrowDeviceArray`
    Array,
    /// `ArrowDeviceArrayStream`
    Stream,
    /// `ArrowAsyncDeviceStreamHandler`
    Async,
    /// `DLManagedTensorVersioned`
    Dlpack,
    /// `DLManagedTensor`
    DlpackLegacy,
}

/// What the peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Makes the structs.
    Producer,
    /// Takes the structs over.
    Consumer,
    /// Takes the structs over and hands the same on.
    Relay,
}

/// The peer to be checked.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name by which the child finds the peer.
    pub peer: String,
    /// What is exchanged.
    pub kind: Kind,
    /// What the peer does.
    pub side: Side,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Array, Self::Stream, Self::Async, Self::Dlpack, Self::DlpackLegacy];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Stream => "stream",
            Self::Async => "async",
            Self::Dlpack => "dlpack",
            Self::DlpackLegacy => "dlpack-legacy",
        }
    }
}

impl Side {
    /// All sides.
    pub const ALL: [Self; 3] = [Self::Producer, Self::Consumer, Self::Relay];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Relay => "relay",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is nothing that is exchanged"))
    }
}

impl FromStr for Side {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|side| side.name() == name);
        found.ok_or_else(|| format!("`{name}` is neither producer, consumer nor relay"))
    }
}

/// Makes a peer that was started do its next step. `Some(false)`: there was none, and none will
/// come unless the peer is called. `None`: the peer has threads of its own, so nobody can tell.
pub type Advance = Box<dyn Fn() -> Option<bool>>;

/// A function of a peer, as `check.h` declares it. All functions return 0 or an errno value.
#[expect(missing_docs, reason = "the names are those of the header")]
#[expect(clippy::type_complexity, reason = "they are what the header says")]
pub enum Entry {
    ProduceArray(Box<dyn Fn(&Bench, *mut ArrowSchema, *mut ArrowDeviceArray) -> c_int>),
    ConsumeArray(Box<dyn Fn(&Bench, *mut ArrowSchema, *mut ArrowDeviceArray) -> c_int>),
    RelayArray(
        Box<
            dyn Fn(
                &Bench,
                *mut ArrowSchema,
                *mut ArrowDeviceArray,
                *mut ArrowSchema,
                *mut ArrowDeviceArray,
            ) -> c_int,
        >,
    ),
    ProduceStream(Box<dyn Fn(&Bench, *mut ArrowDeviceArrayStream) -> c_int>),
    ConsumeStream(Box<dyn Fn(&Bench, *mut ArrowDeviceArrayStream) -> c_int>),
    RelayStream(
        Box<dyn Fn(&Bench, *mut ArrowDeviceArrayStream, *mut ArrowDeviceArrayStream) -> c_int>,
    ),
    ProduceAsync(Box<dyn Fn(&Bench, *mut ArrowAsyncDeviceStreamHandler) -> (c_int, Advance)>),
    ConsumeAsync(Box<dyn Fn(&Bench, *mut *mut ArrowAsyncDeviceStreamHandler) -> (c_int, Advance)>),
    ProduceTensor(Box<dyn Fn(&Bench, *mut *mut DLManagedTensorVersioned) -> c_int>),
    ConsumeTensor(Box<dyn Fn(&Bench, *mut DLManagedTensorVersioned) -> c_int>),
    ProduceLegacy(Box<dyn Fn(&Bench, *mut *mut DLManagedTensor) -> c_int>),
    ConsumeLegacy(Box<dyn Fn(&Bench, *mut DLManagedTensor) -> c_int>),
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entry")
    }
}

/// Opens the place for a scenario, or returns why the scenario is left out.
pub type OpenBench = Box<dyn Fn(Where) -> Result<Bench, String>>;

/// A peer in this process.
#[derive(Debug)]
pub struct Peer {
    /// The function that is checked.
    pub entry: Entry,
    /// A function that does the same, and fails after some arrays.
    pub failing: Option<Entry>,
    /// Where it can be tried.
    pub open: Opener,
    /// Checks what only the peer's language requires.
    pub protocol: Option<Protocol>,
    /// Whether the peer's [`Advance`] returns `Some(false)` once its consumer has come to an end.
    pub tells_end: bool,
    /// Whether the peer is known to keep only what it has to, so that memory can be counted.
    pub can_count: bool,
}

/// Looks at what only the peer's language has, and notes it.
pub struct Protocol(pub(crate) Box<dyn Fn(&Notes)>);

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Protocol")
    }
}

/// An [`OpenBench`] that implements `Debug`.
pub struct Opener(pub OpenBench);

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opener")
    }
}

impl Peer {
    /// Returns a peer that can be tried wherever `open` opens a place.
    pub fn new(entry: Entry, open: impl Fn(Where) -> Result<Bench, String> + 'static) -> Self {
        let open = Opener(Box::new(open));
        Self { entry, failing: None, open, protocol: None, tells_end: false, can_count: true }
    }

    /// Adds a function that fails.
    pub fn with_failing(self, failing: Entry) -> Self {
        Self { failing: Some(failing), ..self }
    }

    /// Leaves out the checks of how much memory is in use.
    pub fn without_counting(self) -> Self {
        Self { can_count: false, ..self }
    }
}

/// Returns the host, and the software device if there is a reason to think that the peer can use
/// it.
pub fn usual_places(
    is_producer: bool,
    knows_devices: bool,
) -> impl Fn(Where) -> Result<Bench, String> {
    move |place| match place {
        Where::Host | Where::Anywhere => Ok(Bench::Host),
        Where::Device if is_producer && !knows_devices => {
            Err("the library has no `arrow_device_check_begin`, so it is not known to use devices"
                .into())
        }
        Where::Device => Bench::software().map_err(|error| error.to_string()),
        Where::WithoutEvents => Err("the software device has events".into()),
    }
}

type Done = unsafe extern "C" fn() -> c_int;
type Begin = unsafe extern "C" fn(*const Context);
type TwoStructs = unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray) -> c_int;
type FourStructs = unsafe extern "C" fn(
    *mut ArrowSchema,
    *mut ArrowDeviceArray,
    *mut ArrowSchema,
    *mut ArrowDeviceArray,
) -> c_int;
type One<T> = unsafe extern "C" fn(*mut T) -> c_int;
type Two<T> = unsafe extern "C" fn(*mut T, *mut T) -> c_int;

/// Splits `lib.so:symbol`.
pub(crate) fn split(spec: &str) -> Result<(&str, &str), String> {
    let parts = spec.rsplit_once(':').filter(|(left, right)| !left.is_empty() && !right.is_empty());
    parts.ok_or_else(|| format!("`{spec}` is not of the form `library.so:function`"))
}

/// Loads a library and finds its entry point.
///
/// # Errors
/// A library or a function is missing.
pub(crate) fn load(spec: &str, kind: Kind, side: Side) -> Result<Peer, String> {
    let (named, symbol) = split(spec)?;
    // The system would look elsewhere for a name without a slash.
    let here = Path::new(".").join(named);
    let path = if Path::new(named).exists() { here.as_path() } else { Path::new(named) };
    // SAFETY: what its initialisers do is up to whoever asked for the check; this is a process of
    // its own.
    let library = unsafe { Library::new(path) }.map_err(|error| {
        let what_to_do = "build it for this machine, or name the path where it is";
        format!("the library {named} cannot be loaded: {what_to_do} ({error})")
    })?;
    // SAFETY: the header declares it so.
    let begin =
        unsafe { library.get::<Begin>(b"arrow_device_check_begin") }.ok().map(|found| *found);
    let find = |symbol: &str| entry(&library, symbol, kind, side, begin);
    let entry = find(symbol).map_err(|why| format!("{named}: {why}"))?;
    let failing = find(&format!("{symbol}_failing")).ok();
    // SAFETY: the header declares it so.
    let done = unsafe { library.get::<Done>(format!("{symbol}_done").as_bytes()) };
    let done =
        done.ok().map(|found| *found).filter(|_| (kind, side) == (Kind::Async, Side::Consumer));
    // Structs that the library made may outlive everything.
    std::mem::forget(library);
    let is_producer = side == Side::Producer;
    let peer = Peer::new(entry, usual_places(is_producer, begin.is_some()));
    let entry = match (peer.entry, done) {
        (Entry::ConsumeAsync(consume), Some(done)) => Entry::ConsumeAsync(with_done(consume, done)),
        (entry, _) => entry,
    };
    Ok(Peer { entry, failing, tells_end: done.is_some(), ..peer })
}

type CallOne<T> = Box<dyn Fn(&Bench, *mut T) -> c_int>;

type ConsumeAsync =
    Box<dyn Fn(&Bench, *mut *mut ArrowAsyncDeviceStreamHandler) -> (c_int, Advance)>;

/// Adds a function that tells whether the consumer has come to its end.
fn with_done(consume: ConsumeAsync, done: Done) -> ConsumeAsync {
    Box::new(move |bench, out| {
        let (code, _) = consume(bench, out);
        // SAFETY: the header says that it can be called at any time.
        (code, Box::new(move || if unsafe { done() } == 0 { None } else { Some(false) }))
    })
}

/// Tells the library which place is used.
fn told(begin: Option<Begin>, bench: &Bench) {
    if let Some(begin) = begin {
        // SAFETY: a context that lives as long as the bench, or null.
        unsafe { begin(bench.context()) };
    }
}

/// # Safety
/// The type is that of the function.
unsafe fn get<T: Copy>(library: &Library, symbol: &str) -> Result<T, String> {
    // SAFETY: the type is that of the function, as the caller promises.
    unsafe { library.get::<T>(symbol.as_bytes()) }.map(|found| *found).map_err(|error| {
        let what_to_do = "export one of this name as C does, or name another";
        format!("the library has no function `{symbol}`: {what_to_do} ({error})")
    })
}

fn entry(
    library: &Library,
    symbol: &str,
    kind: Kind,
    side: Side,
    begin: Option<Begin>,
) -> Result<Entry, String> {
    /// Finds a function that takes one pointer.
    fn one<T: 'static>(
        library: &Library,
        symbol: &str,
        begin: Option<Begin>,
    ) -> Result<CallOne<T>, String> {
        // SAFETY: the header declares it so.
        let call = unsafe { get::<One<T>>(library, symbol) }?;
        Ok(Box::new(move |bench, pointer| {
            told(begin, bench);
            // SAFETY: the judges pass what the header says.
            unsafe { call(pointer) }
        }))
    }
    let two_structs = || {
        // SAFETY: the header declares it so.
        let call = unsafe { get::<TwoStructs>(library, symbol) }?;
        Ok::<_, String>(Box::new(move |bench: &Bench, schema, array| {
            told(begin, bench);
            // SAFETY: the judges pass what the header says.
            unsafe { call(schema, array) }
        }))
    };
    // The peer has threads of its own, or has done everything.
    let unknown = || -> Advance { Box::new(|| None) };
    Ok(match (kind, side) {
        (Kind::Array, Side::Producer) => Entry::ProduceArray(two_structs()?),
        (Kind::Array, Side::Consumer) => Entry::ConsumeArray(two_structs()?),
        (Kind::Array, Side::Relay) => {
            // SAFETY: the header declares it so.
            let call = unsafe { get::<FourStructs>(library, symbol) }?;
            Entry::RelayArray(Box::new(move |bench, schema, array, out_schema, out| {
                told(begin, bench);
                // SAFETY: the judges pass what the header says.
                unsafe { call(schema, array, out_schema, out) }
            }))
        }
        (Kind::Stream, Side::Producer) => Entry::ProduceStream(one(library, symbol, begin)?),
        (Kind::Stream, Side::Consumer) => Entry::ConsumeStream(one(library, symbol, begin)?),
        (Kind::Stream, Side::Relay) => {
            // SAFETY: the header declares it so.
            let call = unsafe { get::<Two<ArrowDeviceArrayStream>>(library, symbol) }?;
            Entry::RelayStream(Box::new(move |bench, stream, out| {
                told(begin, bench);
                // SAFETY: the judges pass what the header says.
                unsafe { call(stream, out) }
            }))
        }
        (Kind::Async, Side::Producer) => {
            let call = one(library, symbol, begin)?;
            Entry::ProduceAsync(Box::new(move |bench, handler| (call(bench, handler), unknown())))
        }
        (Kind::Async, Side::Consumer) => {
            let call = one(library, symbol, begin)?;
            Entry::ConsumeAsync(Box::new(move |bench, handler| (call(bench, handler), unknown())))
        }
        (Kind::Dlpack, Side::Producer) => Entry::ProduceTensor(one(library, symbol, begin)?),
        (Kind::Dlpack, Side::Consumer) => Entry::ConsumeTensor(one(library, symbol, begin)?),
        (Kind::DlpackLegacy, Side::Producer) => Entry::ProduceLegacy(one(library, symbol, begin)?),
        (Kind::DlpackLegacy, Side::Consumer) => Entry::ConsumeLegacy(one(library, symbol, begin)?),
        (kind, Side::Relay) => return Err(no_relay(kind)),
    })
}

pub(crate) fn no_relay(kind: Kind) -> String {
    format!("there are no relays of kind `{}`: check its two sides", kind.name())
}
