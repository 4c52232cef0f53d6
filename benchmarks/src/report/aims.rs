//! What is to be reached, and whether it is.

use std::fmt;

use serde_json::{Value, json};

use super::{OURS, Row};
use crate::gate::Record;
use crate::workloads;

/// A workload, and by how much it is to be ahead of whom.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// Its words.
    pub what: &'static str,
    /// Which rows: workload, shape, size.
    pub of: (&'static str, &'static str, u64),
    /// Which of this library's lines.
    pub by: &'static str,
    /// Ahead of whom.
    pub against: Against,
    /// How many times as long the peer has to take, at least. Less than 1 where this library may
    /// take longer.
    pub lead: f64,
    /// The lead that would be better still.
    pub better: Option<f64>,
}

/// Whom to be ahead of.
#[derive(Clone, Copy, Debug)]
pub enum Against {
    /// The fastest of all.
    Best,
    /// The fastest of all but this one.
    BestBut(&'static str),
    /// This one.
    Only(&'static str),
}

use Against::{Best, BestBut, Only};

const CPP: &str = "Arrow C++";
const NANO: &str = "nanoarrow";
const RS: &str = "arrow-rs";

const fn aim(
    what: &'static str,
    of: (&'static str, &'static str, u64),
    against: Against,
    lead: f64,
) -> Aim {
    Aim { what, of, by: OURS, against, lead, better: None }
}

impl Aim {
    const fn or_better(self, lead: f64) -> Self {
        Self { better: Some(lead), ..self }
    }

    const fn by(self, by: &'static str) -> Self {
        Self { by, ..self }
    }
}

/// What is to be reached.
pub const AIMS: &[Aim] = &[
    aim("export, flat array", ("export", "int64", 1), Best, 5.0),
    aim("export, 1000 columns", ("export", "batch", 1000), Best, 30.0).or_better(40.0),
    aim("export, 1000 columns, built from columns", ("export", "batch", 1000), Best, 30.0)
        .or_better(40.0)
        .by("arrow-device, built from columns"),
    aim("export with schema, 1000 columns", ("export with schema", "batch", 1000), Best, 20.0)
        .or_better(30.0),
    aim("import, schema known, 1000 columns", ("import", "batch", 1000), Only(NANO), 4.0),
    aim("import, schema known, 1000 columns", ("import", "batch", 1000), BestBut(NANO), 50.0),
    aim("import, schema known, flat", ("import", "int64", 1), Only(NANO), 1.0 / 2.5),
    aim("import, schema known, flat", ("import", "int64", 1), BestBut(NANO), 8.0),
    aim("release of 1000 columns", ("release", "batch", 1000), Best, 20.0).or_better(40.0),
    aim("stream, per batch, 1 column", ("stream", "host batch", 1), Only(NANO), 1.5),
    aim("stream, per batch, 10 columns", ("stream", "host batch", 10), Only(NANO), 8.0),
    aim("stream, per batch, 100 columns", ("stream", "host batch", 100), Only(NANO), 25.0),
    aim("stream, per batch, 1000 columns", ("stream", "host batch", 1000), Only(NANO), 25.0),
    aim("stream, per batch, 1 column", ("stream", "host batch", 1), BestBut(NANO), 8.0),
    aim("stream, per batch, 10 columns", ("stream", "host batch", 10), BestBut(NANO), 40.0),
    aim("stream, per batch, 100 columns", ("stream", "host batch", 100), BestBut(NANO), 100.0),
    aim("stream, per batch, 1000 columns", ("stream", "host batch", 1000), BestBut(NANO), 100.0),
    aim("device stream, per batch, 1 column", ("stream", "device batch", 1), Only(CPP), 8.0),
    aim("device stream, per batch, 10 columns", ("stream", "device batch", 10), Only(CPP), 40.0),
    aim("device stream, per batch, 100 columns", ("stream", "device batch", 100), Only(CPP), 100.0),
    aim(
        "device stream, per batch, 1000 columns",
        ("stream", "device batch", 1000),
        Only(CPP),
        100.0,
    ),
    aim("async stream, two threads, 1 column", ("async threads", "queue 64", 1), Only(CPP), 8.0),
    aim(
        "async stream, two threads, 10 columns",
        ("async threads", "queue 64", 10),
        Only(CPP),
        25.0,
    ),
    aim(
        "async stream, two threads, 100 columns",
        ("async threads", "queue 64", 100),
        Only(CPP),
        50.0,
    ),
    aim("export from an arrow-rs batch, 1000 columns", FROM_RS, Only(RS), 20.0),
    aim("contended export, 2 threads, 100 columns", ("contended export", "batch", 100), Best, 20.0),
    aim(COPY_OPENCL, OPENCL, Only("write each, blocking"), 50.0),
    aim(COPY_OPENCL, OPENCL, Only("write each, one wait"), 3.0),
    aim(COPY_OPENCL, OPENCL, Only("mapped gather"), 0.8),
    aim(COPY_VULKAN, VULKAN, Only("submit each, blocking"), 100.0),
    aim(COPY_VULKAN, VULKAN, Only("copy each, one submit"), 2.0),
    aim(COPY_VULKAN, VULKAN, Only("mapped gather"), 0.8),
    aim(STREAM_OPENCL, ("stream to OpenCL", STREAMED, 8192), DOUBLE, AS_FAST),
    aim(STREAM_OPENCL_LARGE, ("stream to OpenCL", STREAMED, 1 << 18), DOUBLE, AS_FAST),
    aim(STREAM_VULKAN, ("stream to Vulkan", STREAMED, 8192), DOUBLE, AS_FAST),
    aim(STREAM_VULKAN_LARGE, ("stream to Vulkan", STREAMED, 1 << 18), DOUBLE, AS_FAST),
    aim("copy, large buffers, host to host", LARGE, Only("memcpy"), 0.95),
    aim("copy, 1000 columns of 1 MiB, pinned memory to a GPU", GPU_PINNED, Only("link"), 0.9),
    aim("copy, 1000 columns of 1 MiB, pageable memory to a GPU", GPU_LARGE, Only("memcpy"), 0.9),
    aim("copy, 1000 columns of 4 KiB to a GPU", GPU_SMALL, Only("a call per buffer"), 5.0),
    aim("DLPack export of a 1-d tensor", ("tensor export", FLAT, 1), Only("dlpark"), 1.0 / 1.2),
    aim("DLPack import of a 1-d tensor", ("tensor import", FLAT, 1), Only("dlpark"), 1.0 / 1.2),
    aim("Python, `__arrow_c_device_array__`, 1000 columns", PYTHON, Only("pyarrow"), 30.0),
];

type Of = (&'static str, &'static str, u64);
const FROM_RS: Of = ("export from arrow-rs", "batch", 1000);
const COPY_OPENCL: &str = "copy, 1000 columns of 4 KiB, host to OpenCL";
const OPENCL: Of = ("copy host to OpenCL", "1000 columns of int64", 512);
const COPY_VULKAN: &str = "copy, 1000 columns of 4 KiB, host to Vulkan";
const VULKAN: Of = ("copy host to Vulkan", "1000 columns of int64", 512);
const STREAM_OPENCL: &str = "stream to OpenCL with `prefetch`, 8192 rows";
const STREAM_OPENCL_LARGE: &str = "stream to OpenCL with `prefetch`, 262144 rows";
const STREAM_VULKAN: &str = "stream to Vulkan with `prefetch`, 8192 rows";
const STREAM_VULKAN_LARGE: &str = "stream to Vulkan with `prefetch`, 262144 rows";
const STREAMED: &str = "10 columns of int64";
const DOUBLE: Against = Only("double buffer");
/// As fast as the peer, as far as times of one run can tell.
const AS_FAST: f64 = 0.95;
const LARGE: Of = ("copy host to host", "8 columns of int64", 1 << 20);
const GPU_PINNED: Of = ("copy to a GPU", "pinned", 1 << 20);
const GPU_LARGE: Of = ("copy to a GPU", "pageable", 1 << 20);
const GPU_SMALL: Of = ("copy to a GPU", "pageable", 1 << 12);
const FLAT: &str = "one dimension";
const PYTHON: Of = ("python, export device array", "batch", 1000);

/// An aim and what was measured.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is to be reached.
    pub what: String,
    /// Than whom: a peer, or nobody for counts.
    pub than: String,
    /// What is aimed at, in words.
    pub aim: String,
    /// What was measured, in words; nothing where it was not.
    pub measured: Option<String>,
    /// Whether it is reached, where it was measured.
    pub is_reached: Option<bool>,
}

impl Verdict {
    pub(super) fn json(&self) -> Value {
        json!({
            "what": self.what, "than": self.than, "aim": self.aim, "measured": self.measured,
            "reached": self.is_reached,
        })
    }

    /// The last word.
    pub fn word(&self) -> &'static str {
        match self.is_reached {
            Some(true) => "reached",
            Some(false) => "not reached",
            None => "not measured",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.measured.as_deref().unwrap_or("-");
        let Self { what, than, aim, .. } = self;
        write!(f, "{:<12} {what:<56} {than:<28} {measured:<28} (aim: {aim})", self.word())
    }
}

/// All aims: the leads by these times, and the promises by these counts.
pub fn verdicts(rows: &[Row], counts: &Record) -> Vec<Verdict> {
    let leads = AIMS.iter().map(|aim| lead(aim, rows));
    leads.chain(promises(counts)).collect()
}

fn lead(aim: &Aim, rows: &[Row]) -> Verdict {
    let (workload, shape, size) = aim.of;
    let of_this = || {
        rows.iter()
            .filter(|r| (r.workload.as_str(), r.shape.as_str(), r.size) == (workload, shape, size))
    };
    let is_asked = |row: &&Row| {
        !row.peer.starts_with(OURS)
            && match aim.against {
                Best => true,
                BestBut(peer) => row.peer != peer,
                Only(peer) => row.peer == peer,
            }
    };
    let ours = of_this().find(|row| row.peer == aim.by);
    let best = of_this().filter(is_asked).min_by(|a, b| a.median.total_cmp(&b.median));
    let than = match (aim.against, best) {
        (Only(peer), _) => peer.to_owned(),
        (Best, Some(best)) => format!("the best ({})", best.peer),
        (BestBut(peer), Some(best)) => format!("the best but {peer} ({})", best.peer),
        (Best, None) => "the best".to_owned(),
        (BestBut(peer), None) => format!("the best but {peer}"),
    };
    let ratio = ours.zip(best).map(|(ours, best)| best.median / ours.median);
    let better = aim.better.map(|better| format!(", better {better}")).unwrap_or_default();
    let aimed = if aim.lead < 1.0 {
        format!("at most {} times as long", two_digits(1.0 / aim.lead))
    } else {
        format!("{} times faster{better}", two_digits(aim.lead))
    };
    Verdict {
        what: aim.what.to_owned(),
        than,
        aim: aimed,
        measured: ratio.map(in_words),
        is_reached: ratio.map(|ratio| ratio >= aim.lead),
    }
}

/// What was promised of counts, as the file has them.
fn promises(counts: &Record) -> Vec<Verdict> {
    let mut all = Vec::new();
    for workload in workloads::counted() {
        for &(count, most) in workload.promised {
            let now = counts.workloads.get(workload.name).and_then(|counts| counts.get(count));
            all.push(Verdict {
                what: workload.name.to_owned(),
                than: String::new(),
                aim: format!("at most {most} {count}"),
                measured: now.map(u64::to_string),
                is_reached: now.map(|&now| now <= most),
            });
        }
    }
    all
}

/// A ratio: `3.2 times faster`, `1.4 times as long`.
pub(super) fn in_words(ratio: f64) -> String {
    if ratio < 1.0 {
        format!("{} times as long", two_digits(1.0 / ratio))
    } else {
        format!("{} times faster", two_digits(ratio))
    }
}

fn two_digits(value: f64) -> String {
    if value >= 9.95 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    const AIM: Aim = aim("w", ("export", "batch", 10), Best, 5.0);

    #[test]
    fn the_fastest_peer_that_was_asked_for_counts() {
        let rows = [
            row("export", 10, OURS, 2.0),
            row("export", 10, "arrow-device, built from columns", 1.0),
            row("export", 10, NANO, 20.0),
            row("export", 10, CPP, 12.0),
            row("export", 100, CPP, 1.0),
        ];
        let best = lead(&AIM, &rows);
        assert_eq!(best.measured.as_deref(), Some("6 times faster"));
        assert_eq!((best.than.as_str(), best.is_reached), ("the best (Arrow C++)", Some(true)));
        let others = lead(&Aim { against: BestBut(CPP), lead: 10.1, ..AIM }, &rows);
        assert_eq!(
            (others.than.as_str(), others.is_reached),
            ("the best but Arrow C++ (nanoarrow)", Some(false))
        );
        let built = lead(&AIM.by("arrow-device, built from columns"), &rows);
        assert_eq!(built.measured.as_deref(), Some("12 times faster"));
    }

    #[test]
    fn being_a_little_slower_can_be_an_aim() {
        let rows = [row("export", 10, OURS, 24.0), row("export", 10, NANO, 10.0)];
        let slower = lead(&Aim { lead: 1.0 / 2.5, ..AIM }, &rows);
        assert_eq!(slower.aim, "at most 2.5 times as long");
        assert_eq!(slower.measured.as_deref(), Some("2.4 times as long"));
        assert_eq!(slower.is_reached, Some(true));
    }

    #[test]
    fn what_was_not_measured_is_not_reached() {
        let verdict = lead(&AIM, &[row("export", 10, OURS, 2.0)]);
        assert_eq!((verdict.is_reached, verdict.word()), (None, "not measured"));
        assert!(verdicts(&[], &Record::default()).iter().all(|v| v.is_reached.is_none()));
    }
}
