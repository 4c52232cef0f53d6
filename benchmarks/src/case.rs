//! What is timed: a workload, as one peer does it, at one size.

use std::fmt;
use std::time::{Duration, Instant};

/// Whose implementation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// This library.
    ArrowDevice,
    /// This library, from another form of the same data.
    ArrowDeviceFrom(&'static str),
    /// The crates `arrow-*`.
    ArrowRs,
    /// Arrow C++, from the wheel of pyarrow.
    ArrowCpp,
    /// nanoarrow's C library.
    Nanoarrow,
    /// The crate `polars-arrow`.
    PolarsArrow,
    /// The crate `dlpark`.
    Dlpark,
    /// numpy, from Python.
    Numpy,
    /// The least that the machine needs, written by hand: a `memcpy`, a mapped gather.
    ByHand(&'static str),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ArrowDeviceFrom(form) => return write!(f, "{}, {form}", Self::ArrowDevice),
            Self::ArrowDevice => "arrow-device",
            Self::ArrowRs => "arrow-rs",
            Self::ArrowCpp => "Arrow C++",
            Self::Nanoarrow => "nanoarrow",
            Self::PolarsArrow => "polars-arrow",
            Self::Dlpark => "dlpark",
            Self::Numpy => "numpy",
            Self::ByHand(how) => how,
        })
    }
}

/// What is done, to what and how much of it: [`workload`](Case::workload), [`shape`](Case::shape)
/// and [`size`](Case::size) of a case.
pub type WorkloadKey = (&'static str, &'static str, u64);

/// A workload by one peer at one size.
pub struct Case {
    /// What is done, the same words for all peers: `export`.
    pub workload: &'static str,
    /// To what: `int64`, `batch`.
    pub shape: &'static str,
    /// How much of it: columns, rows, bytes. 1 where there is only one size.
    pub size: u64,
    /// By whom.
    pub peer: Peer,
    /// The bytes that one turn moves, for what is told as a rate.
    pub bytes: u64,
    /// Does it so many times, and says how long that took without what is not part of it.
    pub run: Box<dyn FnMut(u32) -> Duration>,
}

impl Case {
    /// One that is timed as a whole.
    pub fn whole(
        (workload, shape, size): WorkloadKey,
        peer: Peer,
        mut once: impl FnMut() + 'static,
    ) -> Self {
        let run = move |turns| {
            let start = Instant::now();
            (0..turns).for_each(|_| once());
            start.elapsed()
        };
        Self { workload, shape, size, peer, bytes: 0, run: Box::new(run) }
    }

    /// One of which only the second step is timed: the first makes what it needs, the third clears
    /// away.
    ///
    /// What is large is made, timed and cleared away one by one, as it would be in a program, so
    /// that memory is recycled. What is small would be lost in the cost of looking at the clock,
    /// and goes in groups.
    pub fn step<A: 'static, B: 'static>(
        (workload, shape, size): WorkloadKey,
        peer: Peer,
        mut before: impl FnMut() -> A + 'static,
        mut timed: impl FnMut(A) -> B + 'static,
        mut after: impl FnMut(B) + 'static,
    ) -> Self {
        let group = if size >= 100 { 1 } else { 16 };
        let (mut made, mut done) = (Vec::with_capacity(16), Vec::with_capacity(16));
        let run = move |turns: u32| {
            let groups = turns.div_ceil(group);
            let mut took = Duration::ZERO;
            for _ in 0..groups {
                made.extend((0..group).map(|_| before()));
                let start = Instant::now();
                done.extend(made.drain(..).map(&mut timed));
                took += start.elapsed();
                done.drain(..).for_each(&mut after);
            }
            took * turns / (groups * group)
        };
        Self { workload, shape, size, peer, bytes: 0, run: Box::new(run) }
    }

    /// One of which only the second step is timed, as by [`step`](Self::step), of things that stay
    /// where they are: for what is so small that moving it would be told as a part of it. All slots
    /// are prepared, then timed, then cleared away.
    pub fn in_place<S: 'static>(
        (workload, shape, size): WorkloadKey,
        peer: Peer,
        mut slots: Vec<S>,
        mut before: impl FnMut(&mut S) + 'static,
        mut timed: impl FnMut(&mut S) + 'static,
        mut after: impl FnMut(&mut S) + 'static,
    ) -> Self {
        let run = move |turns: u32| {
            let groups = turns.div_ceil(slots.len() as u32);
            let mut took = Duration::ZERO;
            for _ in 0..groups {
                slots.iter_mut().for_each(&mut before);
                let start = Instant::now();
                slots.iter_mut().for_each(&mut timed);
                took += start.elapsed();
                slots.iter_mut().for_each(&mut after);
            }
            took * turns / (groups * slots.len() as u32)
        };
        Self { workload, shape, size, peer, bytes: 0, run: Box::new(run) }
    }

    /// The same, told as a rate.
    pub fn moving(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {} by {}", self.workload, self.size, self.shape, self.peer)
    }
}
