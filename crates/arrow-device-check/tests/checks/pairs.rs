//! Pairs: for each rule at least one peer that breaks it, and the same peer without the fault. Each
//! fault is found as exactly the rules that its row states, and no right peer is blamed.
//!
//! `cargo test -p arrow-device-check --test checks pairs -- --nocapture` prints the table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use arrow_device_check::{
    Kind, Launcher, Limits, Report, Side, Subject, check_some, child_with, rules,
};

use crate::{libraries, python, support, twins, wrong_arrays, wrong_streams, wrong_tensors};

/// How a peer is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// By this test program: a peer in Rust, or in a library.
    Test,
    /// By the program, in Python.
    Python,
    /// By the program, under valgrind.
    Valgrind,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    by: By,
    kind: Kind,
    side: Side,
    faulty: String,
    right: String,
    /// What the faulty peer does.
    what: String,
    /// The rule that it breaks.
    id: &'static str,
    tried: Tried,
}

/// Which of the things that there are to try are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tried {
    /// Those with this in their names; all where it is empty.
    Part(&'static str),
    /// The one of this name.
    Only(&'static str),
    /// All but structs that are wrong.
    Good,
}

impl Tried {
    /// What a cell of the tables below stands for.
    fn of(words: &'static str) -> Self {
        words.strip_prefix('=').map_or(Self::Part(words), Self::Only)
    }

    /// What the checker's program is told to look for.
    fn words(self) -> &'static str {
        match self {
            Self::Part(words) | Self::Only(words) => words,
            Self::Good => "",
        }
    }

    fn has(self, name: &str) -> bool {
        match self {
            Self::Part(part) => name.contains(part),
            Self::Only(only) => name == only,
            Self::Good => !name.starts_with("a struct that is wrong"),
        }
    }
}

impl Pair {
    pub(crate) fn of_rust(
        kind: Kind,
        side: Side,
        faulty: String,
        right: String,
        what: impl Into<String>,
        id: &'static str,
    ) -> Self {
        let what = what.into();
        Self { by: By::Test, kind, side, faulty, right, what, id, tried: Tried::Part("") }
    }

    pub(crate) fn only(self, name: &'static str) -> Self {
        Self { tried: Tried::Only(name), ..self }
    }

    pub(crate) fn without_wrong_structs(self) -> Self {
        Self { tried: Tried::Good, ..self }
    }

    /// All rules that are broken by the fault.
    fn expected(&self) -> BTreeSet<&str> {
        let others = ALSO.iter().find(|(what, id, _)| *what == self.what && *id == self.id);
        others.map_or(&[][..], |(.., others)| others).iter().copied().chain([self.id]).collect()
    }
}

/// Faults that break more than the one rule that they are about: what a peer does, that rule, and
/// the others.
const ALSO: &[(&str, &str, &[&str])] = &[
    // Garbage in `reserved` is how it shows.
    ("writes a struct without `reserved`", "ABI-1", &["ABI-5"]),
    // The memory in which the fault shows is never freed.
    ("lets the schema end with its array", "SCH-6", &["ARR-10"]),
    ("destroys the event when it has handed out", "ARR-9", &["ARR-10", "ARR-7"]),
    ("never destroys its event", "ARR-9", &["ARR-10"]),
    // On a device, and with a type of device that it has to keep.
    ("reads device memory on the host", "ARR-1", &["ARR-2"]),
    ("says that all memory is the host's", "ARR-4", &["ABI-2"]),
    ("writes to what it was given", "ARR-15", &["ARR-1", "ARR-17", "ARR-2"]),
    // What is released is moved first in some scenarios, and whose fault it is cannot be told.
    ("never releases", "ARR-10", &["ARR-19"]),
    ("keeps the address of a struct", "ARR-19", &["ARR-10"]),
    // Sizes of data buffers, which are copied as well.
    ("hands on copies", "ARR-16", &["ARR-17"]),
    ("hands on nonsense", "SYS-2", &["ARR-7"]),
    // A stream that was to fail is released without a word, too.
    ("ReleasesAtOnce", "ASY-8", &["ASY-12"]),
    ("keep_everything", "SYS-2", &["SCH-6"]),
];

/// Peers in C: the library, the side, the kind, the faulty function, the right one, the rule, and
/// what is tried: what has this in its name, or, behind a `=`, what has this name. Where the right
/// one is not named, its name ends with `_right`.
const IN_C: &[[&str; 7]] = &[
    ["wrong", "producer", "array", "crashes", "produce", "PEER", ""],
    ["wrong", "producer", "array", "aborts", "produce", "PEER", ""],
    ["wrong", "producer", "array", "exits", "produce", "PEER", ""],
    ["wrong", "producer", "array", "hangs", "produce", "PEER", "=an array on the host"],
    ["wrong", "producer", "array", "refuses", "produce", "PEER", ""],
    ["wrong", "producer", "array", "loses_event", "produce", "ARR-6", ""],
    ["wrong", "producer", "array", "records_early", "produce", "ARR-8", ""],
    ["wrong", "producer", "array", "forgets_event", "produce", "ARR-9", ""],
    ["wrong", "producer", "array", "forgets_memory", "produce", "ARR-10", ""],
    ["wrong", "producer", "array", "forgets_device", "produce", "ARR-1", ""],
    [
        "wrong",
        "producer",
        "array",
        "dictionary_on_host",
        "dictionary_with_the_keys",
        "ARR-1",
        "=an array on a device",
    ],
    ["wrong", "producer", "array", "writes_early", "produce", "ARR-11", ""],
    [
        "wrong",
        "consumer",
        "array",
        "reads_on_host",
        "takes",
        "ARR-2",
        "a batch of numbers on a device",
    ],
    [
        "wrong",
        "consumer",
        "array",
        "never_waits",
        "waits",
        "ARR-2",
        "a batch of numbers on a device",
    ],
    [
        "wrong",
        "consumer",
        "array",
        "waits_elsewhere",
        "waits",
        "ARR-5",
        "a batch of numbers on a device",
    ],
    [
        "wrong",
        "consumer",
        "array",
        "releases_early",
        "waits",
        "ARR-20",
        "a batch of numbers on a device",
    ],
    ["wrong", "consumer", "array", "counts_nulls", "takes", "ARR-2", "nulls nobody has counted"],
    [
        "wrong",
        "consumer",
        "array",
        "reads_offsets_early",
        "reads_offsets",
        "ARR-2",
        "a batch on a device",
    ],
    [
        "wrong",
        "consumer",
        "array",
        "crashes_on_metal",
        "takes",
        "ABI-2",
        "arrays of every type of device",
    ],
    ["wrong", "producer", "stream", "leaky_stream", "produce_stream", "STR-7", ""],
    ["wrong", "producer", "stream", "stray_stream", "produce_stream", "STR-2", ""],
];

/// Peers in Python: the side, the kind, the faulty function, the right one, the rule, and what is
/// tried.
const IN_PYTHON: &[[&str; 6]] = &[
    ["producer", "array", "WithoutKeywords", "numbers", "PYC-3", PROTOCOL],
    ["producer", "array", "WithAnyKeyword", "numbers", "PYC-3", PROTOCOL],
    ["producer", "array", "WithoutRequest", "numbers", "PYC-5", PROTOCOL],
    ["producer", "array", "Swapped", "numbers", "PYC-1", PROTOCOL],
    ["producer", "array", "GivenTwice", "numbers", "PYC-2", PROTOCOL],
    ["producer", "array", "WithoutDestructor", "numbers", "PYC-2", PROTOCOL],
    ["producer", "array", "Raises", "numbers", "PEER", PROTOCOL],
    ["producer", "array", "Nothing", "numbers", "PYC-6", PROTOCOL],
    ["producer", "array", "ElsewhereAndHere", "Elsewhere", "PYC-4", PROTOCOL],
    ["producer", "dlpack", "OldTensor", "tensor", "DLP-3", PROTOCOL],
    ["consumer", "array", "keep_everything", "take_array", "SYS-2", "a batch on the host"],
    ["consumer", "array", "take_any_name", "take_array", "PYC-1", PROTOCOL],
    ["consumer", "array", "only_host", "take_array", "PYC-6", PROTOCOL],
    ["consumer", "array", "assumes_its_wish", "take_array", "PYC-5", PROTOCOL],
    ["consumer", "stream", "take_stream_of_the_host", "take_stream", "PYC-6", PROTOCOL],
    ["consumer", "stream", "take_stream_of_any_name", "take_stream", "PYC-1", PROTOCOL],
    ["consumer", "array", "take_nothing_too", "take_array", "PYC-2", PROTOCOL],
];

const PROTOCOL: &str = "the protocol of the language";

fn of_c(library: &Path, row: &[&'static str; 7], by: By) -> Pair {
    let [_, side, kind, faulty, right, id, scenario] = *row;
    let path = |function: &str| format!("{}:{function}", library.display());
    let twin = format!("{faulty}_right");
    Pair {
        by,
        kind: kind.parse().unwrap(),
        side: side.parse().unwrap(),
        faulty: path(faulty),
        right: path(if right.is_empty() { &twin } else { right }),
        what: faulty.to_owned(),
        id,
        tried: Tried::of(scenario),
    }
}

fn of_python(row: &[&'static str; 6]) -> Pair {
    let [side, kind, faulty, right, id, scenario] = *row;
    Pair {
        by: By::Python,
        kind: kind.parse().unwrap(),
        side: side.parse().unwrap(),
        faulty: format!("python_peers:{faulty}"),
        right: format!("python_peers:{right}"),
        what: faulty.to_owned(),
        id,
        tried: Tried::of(scenario),
    }
}

/// The peers of this test program, behind an `@` after the module that has them.
fn peer(name: &str) -> Option<arrow_device_check::Peer> {
    let (module, name) = name.split_once('@')?;
    match module {
        "arrays" => wrong_arrays::peer(name),
        "streams" => wrong_streams::peer(name),
        _ => wrong_tensors::peer(name),
    }
}

#[test]
fn the_child_of_the_other_tests() {
    child_with(peer);
}

/// Who tries peers, and how.
struct Bench {
    launcher: Launcher,
    python: Option<PathBuf>,
}

impl Bench {
    /// What one side of a pair is found to break.
    fn failed(&self, pair: &Pair, peer: &str) -> BTreeSet<String> {
        match pair.by {
            By::Test => self.failed_here(pair, peer),
            By::Python => {
                let (side, kind) = (pair.side.name(), pair.kind.name());
                let python = self.python.as_ref().unwrap();
                ids(python::command(python, peer, side, kind, pair.tried.words()))
            }
            By::Valgrind => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_arrow-device-check"));
                command.arg(format!("--{}", pair.side.name())).arg(peer);
                command.args(["--kind", pair.kind.name(), "--scenario", pair.tried.words()]);
                command.args(["--under", "valgrind", "--limit", "15", "--json", "-"]);
                ids(command)
            }
        }
    }

    fn failed_here(&self, pair: &Pair, peer: &str) -> BTreeSet<String> {
        let subject = Subject { peer: peer.to_owned(), kind: pair.kind, side: pair.side };
        let wanted = |_: &Report, name: &str| {
            Some(pair.tried.has(name) || name == "the shapes that it takes")
        };
        let report = check_some(&subject, &self.launcher, limits(pair), wanted).unwrap();
        assert!(report.findings().count() > 0, "{peer}: nothing was looked at");
        let failed: BTreeSet<String> = report.failed().into_iter().map(str::to_owned).collect();
        let expected = pair.expected();
        if failed.iter().any(|id| !expected.contains(id.as_str())) {
            println!("{report}");
        }
        failed
    }
}

/// What these ought to do is waited for.
const WAITED_FOR: &[&str] = &[
    "never_deletes",
    "never deletes",
    "never_releases_its_arrays",
    "NeverExtracts",
    "ForgetsAfterCancel",
    "waiting consumer",
    "never lets go of its stream",
    "Leaks",
];

/// Nothing waits for long but what waits in vain, and no right peer does that.
fn limits(pair: &Pair) -> Limits {
    let (scenario, patience) = match pair.what.as_str() {
        "hangs" => (1, 1),
        "blocking producer" => (3, 1),
        what if WAITED_FOR.contains(&what) => (60, 1),
        _ => (60, 10),
    };
    Limits { scenario: Duration::from_secs(scenario), patience: Duration::from_secs(patience) }
}

fn ids(mut command: Command) -> BTreeSet<String> {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let failed: BTreeSet<String> = libraries::ids(&output, "fail").into_iter().collect();
    let passed = libraries::ids(&output, "pass");
    assert!(failed.len() + passed.len() > 0, "nothing was looked at: {told}");
    failed
}

fn all(python: Option<&Path>) -> Vec<Pair> {
    let mut pairs = wrong_arrays::pairs();
    pairs.extend(wrong_streams::pairs());
    pairs.extend(wrong_tensors::pairs());
    let [wrong, twins_library] = ["wrong", "twins"].map(libraries::library);
    if let (Some(wrong), Some(library)) = (wrong, twins_library) {
        pairs.extend(IN_C.iter().map(|row| of_c(&wrong, row, By::Test)));
        let twin = |row: &[&'static str; 5]| {
            let [side, kind, function, id, scenario] = *row;
            ["twins", side, kind, function, "", id, scenario]
        };
        pairs.extend(twins::TWINS.iter().map(|row| of_c(&library, &twin(row), By::Test)));
        if twins::has_valgrind() {
            let rows = twins::UNDER_VALGRIND.iter();
            pairs.extend(rows.map(|row| of_c(&library, &twin(row), By::Valgrind)));
        }
    }
    if python.is_some() {
        pairs.extend(IN_PYTHON.iter().map(of_python));
    }
    pairs
}

/// Both sides of all pairs, by several threads. A right peer that several pairs share is tried once
/// for each thing that is tried.
fn try_all(bench: &Bench, pairs: &[Pair]) -> BTreeMap<(By, String, Tried), BTreeSet<String>> {
    let mut jobs = BTreeMap::new();
    for pair in pairs {
        for peer in [&pair.faulty, &pair.right] {
            let key = (pair.by, peer.clone(), pair.tried);
            jobs.entry((key, pair.kind.name(), pair.side.name())).or_insert(pair);
        }
    }
    // Who waits, or takes long, begins.
    let mut jobs: Vec<_> = jobs.into_iter().collect();
    jobs.sort_by_key(|(_, pair)| (pair.by != By::Valgrind, limits(pair).patience));
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    let threads = 2 * thread::available_parallelism().map_or(1, |threads| threads.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(((key, ..), pair)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failed = bench.failed(pair, &key.1);
                    found.lock().unwrap().insert(key.clone(), failed);
                }
            });
        }
    });
    found.into_inner().unwrap()
}

// Requirement: ASY-21
#[test]
fn each_fault_is_found_as_its_rule_and_no_right_peer_is_blamed() {
    let python = python::python("pyarrow");
    let bench = Bench { launcher: support::launcher(), python };
    let pairs = all(bench.python.as_deref());
    let found = try_all(&bench, &pairs);
    let (mut missed, mut falsely) = (Vec::new(), Vec::new());
    let mut broken = BTreeSet::new();
    println!("{:8} {:13} {:45} {:7} found as", "side", "kind", "fault", "breaks");
    for pair in &pairs {
        let of = |peer: &String| &found[&(pair.by, peer.clone(), pair.tried)];
        let (faulty, right) = (of(&pair.faulty), of(&pair.right));
        let as_ = faulty.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let alarm = if right.is_empty() { String::new() } else { format!("; FALSE: {right:?}") };
        let Pair { side, kind, what, id, .. } = pair;
        println!("{:8} {:13} {what:45} {id:7} {as_}{alarm}", side.name(), kind.name());
        if faulty.iter().map(String::as_str).ne(pair.expected()) {
            missed.push(format!("{what}: {faulty:?} and not {:?}", pair.expected()));
        } else {
            broken.insert(*id);
        }
        if !right.is_empty() {
            falsely.push(format!("{}: {right:?}", pair.right));
        }
    }
    let unbroken: Vec<&str> =
        rules::ALL.iter().map(|rule| rule.id).filter(|id| !broken.contains(id)).collect();
    println!(
        "{} pairs for {} of {} rules: {} found, {} missed, {} false",
        pairs.len(),
        broken.len(),
        rules::ALL.len(),
        pairs.len() - missed.len(),
        missed.len(),
        falsely.len()
    );
    assert!(missed.is_empty() && falsely.is_empty(), "{missed:#?} {falsely:#?}");
    if bench.python.is_some() {
        assert!(unbroken.is_empty(), "no pair breaks {unbroken:?}");
    }
}
