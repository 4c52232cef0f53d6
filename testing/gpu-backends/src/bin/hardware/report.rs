//! The report: one JSON object, written anew after each step, so that a crash leaves what came
//! before it.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

/// What was found so far.
pub(crate) struct Report {
    path: PathBuf,
    is_quick: bool,
    pub(crate) failures: usize,
    runtimes: Vec<RuntimeReport>,
}

/// The same of one runtime, as JSON.
struct RuntimeReport {
    name: &'static str,
    diagnosis: String,
    checks: Vec<String>,
    copies: Vec<String>,
}

impl Report {
    pub(crate) fn new(path: PathBuf, is_quick: bool) -> Self {
        let report = Self { path, is_quick, failures: 0, runtimes: Vec::new() };
        report.write();
        report
    }

    /// Whatever comes next is about this runtime.
    pub(crate) fn begin(&mut self, name: &'static str, diagnosis: &str) {
        println!("{diagnosis}");
        let diagnosis = quoted(diagnosis);
        self.runtimes.push(RuntimeReport {
            name,
            diagnosis,
            checks: Vec::new(),
            copies: Vec::new(),
        });
        self.write();
    }

    /// Runs a check; a panic is its failure.
    pub(crate) fn check(&mut self, name: &str, work: impl FnOnce() -> String) {
        println!("begins {name}");
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(work));
        let seconds = start.elapsed().as_secs_f64();
        let is_passed = outcome.is_ok();
        let text = outcome.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            text.unwrap_or_default()
        });
        self.failures += usize::from(!is_passed);
        println!("{} {name} ({seconds:.1} s)", if is_passed { "passed" } else { "FAILED" });
        if !is_passed {
            println!("{text}");
        }
        let (name, text) = (quoted(name), quoted(&text));
        let check = format!(
            "{{\"name\": {name}, \"passed\": {is_passed}, \"seconds\": {seconds:.3}, \"text\": {text}}}"
        );
        if let Some(runtime) = self.runtimes.last_mut() {
            runtime.checks.push(check);
        }
        self.write();
    }

    /// Notes how long something took.
    pub(crate) fn measured(&mut self, row: &[(&str, Value)]) {
        if let Some(runtime) = self.runtimes.last_mut() {
            runtime.copies.push(members(row));
        }
        self.write();
    }

    fn write(&self) {
        let runtimes: Vec<String> = self.runtimes.iter().map(RuntimeReport::text).collect();
        let (version, is_quick, failures) =
            (env!("CARGO_PKG_VERSION"), self.is_quick, self.failures);
        let text = format!(
            "{{\"program\": \"arrow-device {version}\", \"quick\": {is_quick}, \"failures\": {failures}, \"runtimes\": [{}]}}\n",
            runtimes.join(", ")
        );
        if let Err(error) = std::fs::write(&self.path, text) {
            println!("{}: {error}", self.path.display());
        }
    }
}

impl RuntimeReport {
    fn text(&self) -> String {
        let Self { name, diagnosis, checks, copies } = self;
        let (name, checks, copies) = (quoted(name), checks.join(", "), copies.join(", "));
        format!(
            "{{\"runtime\": {name}, \"diagnosis\": {diagnosis}, \"checks\": [{checks}], \"copies\": [{copies}]}}"
        )
    }
}

/// A value of the report.
pub(crate) enum Value {
    Text(String),
    Count(u64),
    Number(f64),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Count(count) => count.to_string(),
            // JSON has no infinity.
            Self::Number(number) if !number.is_finite() => "null".into(),
            Self::Number(number) => format!("{number:.4}"),
        }
    }
}

/// An object with these members.
pub(crate) fn members(members: &[(&str, Value)]) -> String {
    let member = |(name, value): &(&str, Value)| format!("{}: {}", quoted(name), value.text());
    let members: Vec<String> = members.iter().map(member).collect();
    format!("{{{}}}", members.join(", "))
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
