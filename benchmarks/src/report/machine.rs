//! What a result depends on besides the code.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

/// The machine, its system, and the versions of all that took part.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// What to know, in the order to show it: a name and a value.
    pub facts: Vec<(&'static str, String)>,
}

impl Machine {
    /// This machine, now; the command is the one to repeat.
    pub fn look(command: &str) -> Self {
        let os = read("/etc/os-release");
        let os = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let kernel = read("/proc/sys/kernel/osrelease");
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processor = processor(&read("/proc/cpuinfo"));
        let facts = vec![
            ("command", command.to_owned()),
            ("date", said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
            ("processor", format!("{processor}, {count} processors")),
            (
                "system",
                format!("{}, kernel {}", os.unwrap_or("?").trim_matches('"'), kernel.trim()),
            ),
            ("compilers", [said("rustc", &["-V"]), first(&said("c++", &["--version"]))].join("; ")),
            ("peers", peers()),
            ("load before", load()),
        ];
        Self { facts }
    }

    /// How busy the machine was at the end.
    pub fn finish(&mut self) {
        self.facts.push(("load after", load()));
    }

    pub(super) fn json(&self) -> Value {
        self.facts.iter().map(|(name, value)| (name.to_string(), json!(value))).collect()
    }
}

fn processor(info: &str) -> String {
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned())
}

/// The versions that are pinned or locked.
fn peers() -> String {
    let lock = locked(include_str!("../../../Cargo.lock"));
    let pins = concat!(
        include_str!("../../../testing/foreign-peers/requirements.txt"),
        "\n",
        include_str!("../../../testing/foreign-peers/sources.txt"),
        "\n",
        include_str!("../../../python/tests/requirements.txt"),
    );
    let mut all: Vec<String> = lock;
    for pin in pins.lines().filter_map(|line| line.split_once("==")) {
        let text = format!("{} {}", pin.0.trim(), pin.1.trim());
        let is_peer = ["pyarrow", "nanoarrow", "polars", "numpy"].contains(&pin.0.trim());
        if is_peer && !all.contains(&text) {
            all.push(text);
        }
    }
    all.join(", ")
}

/// The crates among the peers, with their versions.
fn locked(lock: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["arrow-array", "polars-arrow", "dlpark"] {
        let start = format!("name = \"{name}\"\nversion = \"");
        // Of several majors the last one is the newest.
        let version = lock.rsplit_once(&start).and_then(|(_, rest)| rest.split_once('"'));
        found.extend(version.map(|(version, _)| format!("{name} {version}")));
    }
    found
}

fn load() -> String {
    read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn first(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    output.map_or_else(|_| "?".into(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_and_the_newest_major_are_found() {
        assert_eq!(processor("vendor: x\nmodel name\t: Some CPU\n"), "Some CPU");
        let lock = "name = \"arrow-array\"\nversion = \"58.0.0\"\n\nname = \"arrow-array\"\nversion = \"60.1.0\"\n";
        assert_eq!(locked(lock), ["arrow-array 60.1.0"]);
        assert!(peers().contains("arrow-array ") && peers().contains("pyarrow "), "{}", peers());
    }
}
