//! [`Options`]: the arguments, for a program of one's own or as a subcommand.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::parent::{self, Launcher, Limits};
use crate::peer::{self, Kind, Side, Subject};
use crate::python;
use crate::report::Report;
use crate::shape::Shape;
use crate::under::Under;

/// The arguments that name a peer. One of them is needed.
const PEERS: [&str; 4] = ["producer", "consumer", "relay", "python"];

/// What `arrow-device check` is given.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("peer").required(true).args(PEERS)))]
#[command(after_help = "\
Examples:
  check --producer ./libmine.so:my_produce
  check --consumer ./libmine.so:my_consume_stream --kind stream --junit report.xml
  check --python mypackage:make_array --kind array
  check --python mypackage:take --as consumer --json -
  check --producer ./libmine.so:my_tensor --kind dlpack --under valgrind

The entry points in C are in include/arrow_device/check.h. A function in Python returns an object with
__arrow_c_device_array__ (or __dlpack__, and so on), takes one, or does both.")]
pub struct Options {
    /// A function that makes data, as LIBRARY:FUNCTION
    #[arg(long, value_name = "LIBRARY:FUNCTION")]
    pub producer: Option<String>,
    /// A function that takes data over, as LIBRARY:FUNCTION
    #[arg(long, value_name = "LIBRARY:FUNCTION")]
    pub consumer: Option<String>,
    /// A function that takes data over and hands the same on, as LIBRARY:FUNCTION
    #[arg(long, value_name = "LIBRARY:FUNCTION")]
    pub relay: Option<String>,
    /// A function in Python, as MODULE:FUNCTION; without --as a producer
    #[arg(long, value_name = "MODULE:FUNCTION")]
    pub python: Option<String>,
    /// What the function in Python does: producer, consumer or relay
    #[arg(long = "as", value_name = "SIDE", requires = "python", default_value = "producer")]
    pub side: String,
    /// What is exchanged
    #[arg(long, value_enum, default_value = "array")]
    pub kind: Kind,
    /// What a consumer or a relay of arrays takes
    #[arg(long, value_enum, default_value = "auto")]
    pub shape: Shape,
    /// Run the peer under a tool that sees each access to memory that is not there
    #[arg(long, value_enum, value_name = "TOOL")]
    pub under: Option<Under>,
    /// Try only what has this in its name, as it stands in the report
    #[arg(long, value_name = "WORDS")]
    pub scenario: Option<String>,
    /// Rules that may be broken, as ARR-3,ABI-5
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Write the report as JSON to a file, or with - instead of the text
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as JUnit XML to a file, or with - instead of the text
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// How many seconds one scenario may take
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    pub limit: u64,
    /// How many seconds a peer with threads of its own gets for its next step
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    pub patience: u64,
    /// The Python to use
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python_program: String,
    /// The shared library of the checker, for Python, where it is not beside this program
    #[arg(long, value_name = "PATH", requires = "python")]
    pub check_library: Option<PathBuf>,
}

/// The error of a check that could not be done, in one line that says what to do.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the check, and writes the report. Returns whether no rule was broken.
///
/// The calling program has to call [`child_if_asked`](crate::child_if_asked) first, because it is
/// started again for each scenario.
///
/// # Errors
/// Nothing could be tried, or the report could not be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, Failure> {
    let unknown = options.allow.iter().find(|id| crate::rules::find(id).is_none());
    if let Some(unknown) = unknown {
        return Err(format!("`{unknown}` is no rule; docs/check.md lists them").into());
    }
    let (subject, mut launcher) = subject(options)?;
    launcher.variables.extend(options.shape.variable());
    if let Some(under) = options.under {
        launcher = under.around(launcher);
    }
    for file in files(options) {
        may_be_written(file)?;
    }
    let slower = options.under.map_or(1, Under::slower);
    let limits = Limits {
        scenario: Duration::from_secs(options.limit.max(1).saturating_mul(slower)),
        patience: Duration::from_secs(options.patience.max(1).saturating_mul(slower)),
    };
    let is_named = |name: &str| options.scenario.as_deref().is_none_or(|part| name.contains(part));
    let names: Vec<&str> = parent::names(&subject).collect();
    if let Some(words) =
        options.scenario.as_deref().filter(|_| !names.iter().any(|it| is_named(it)))
    {
        let names = names.join("; ");
        return Err(format!(
            "nothing that is tried has `{words}` in its name: name one of: {names}"
        )
        .into());
    }
    let progress = Progress::new();
    let wanted = |_: &Report, name: &str| {
        let is_wanted = is_named(name) || name == crate::judge::SHAPES;
        if is_wanted {
            progress.show(names.iter().position(|it| *it == name), names.len(), name);
        }
        Some(is_wanted)
    };
    let report = parent::check_some(&subject, &launcher, limits, wanted);
    progress.end();
    let report = report?;
    let report = report.allowing(&options.allow);
    write(&report, options, out)?;
    Ok(report.failed().is_empty())
}

/// A line on a terminal that says what is being tried. Without a terminal nothing is printed.
struct Progress {
    is_shown: bool,
}

impl Progress {
    /// Returns to the beginning of the line and clears it.
    const CLEAR: &str = "\r\x1b[2K";

    fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal() }
    }

    fn show(&self, at: Option<usize>, of: usize, name: &str) {
        if let (true, Some(at)) = (self.is_shown, at) {
            // If writing fails, nobody can be told.
            let _ = write!(io::stderr(), "{}[{}/{of}] {name}", Self::CLEAR, at + 1);
            let _ = io::stderr().flush();
        }
    }

    fn end(&self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "{}", Self::CLEAR);
        }
    }
}

fn subject(options: &Options) -> Result<(Subject, Launcher), Failure> {
    let kind = options.kind;
    let named = [
        (&options.producer, Side::Producer),
        (&options.consumer, Side::Consumer),
        (&options.relay, Side::Relay),
    ];
    let library = named.into_iter().find_map(|(spec, side)| Some((spec.clone()?, side)));
    let (peer, side, launcher) = match (library, &options.python) {
        (Some((peer, side)), _) => {
            let (path, _) = peer::split(&peer)?;
            // The system looks for a name without a folder in its folders of libraries.
            let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
            if folder.is_some() && !Path::new(path).exists() {
                let what_to_do = "build it, or name the path where it is";
                return Err(format!("there is no library {path}: {what_to_do}").into());
            }
            (peer, side, Launcher::this_program()?)
        }
        (None, Some(_)) if kind == Kind::Async => {
            return Err("Python has no asynchronous streams: name another --kind".into());
        }
        (None, Some(peer)) => {
            let launcher =
                python::launcher(&options.python_program, options.check_library.as_deref(), peer)?;
            (peer.clone(), options.side.parse()?, launcher)
        }
        (None, None) => {
            return Err("name a peer: --producer, --consumer, --relay or --python".into());
        }
    };
    if crate::judge::scenarios(kind, side).is_empty() {
        return Err(peer::no_relay(kind).into());
    }
    Ok((Subject { peer, kind, side }, launcher))
}

/// Returns the files that the report is written to.
fn files(options: &Options) -> impl Iterator<Item = &Path> {
    let named = [&options.json, &options.junit].into_iter().flatten();
    named.map(PathBuf::as_path).filter(|file| file.as_os_str() != "-")
}

/// Checks before the run that the report can be written, so that nobody waits in vain.
fn may_be_written(file: &Path) -> Result<(), String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if file.is_dir() {
        return Err(not_written(file, "it is a folder"));
    }
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(not_written(file, &format!("there is no folder {}", folder.display())))
        }
        _ => Ok(()),
    }
}

fn not_written(file: &Path, why: &str) -> String {
    let file = file.display();
    format!(
        "the report cannot be written to {file}: {why}; name a file in a folder that may be written to, or - for here"
    )
}

fn write(report: &Report, options: &Options, out: &mut dyn Write) -> Result<(), Failure> {
    let mut is_written = false;
    let forms = [(&options.json, report.to_json()), (&options.junit, report.to_junit())];
    for (file, text) in forms {
        match file {
            Some(file) if file.as_os_str() == "-" => {
                out.write_all(text.as_bytes())?;
                is_written = true;
            }
            Some(file) => {
                fs::write(file, text).map_err(|error| not_written(file, &error.to_string()))?;
            }
            None => {}
        }
    }
    if !is_written {
        write!(out, "{report}")?;
    }
    Ok(())
}
