//! What the module does in the simulator's callbacks.
//!
//! The module is a state machine with one entrance, [`Server::step`], which the simulator calls at
//! the end of a moment of simulated time. `step` does what can be done without simulated time:
//! it waits for a request, reads and writes the memory, and answers. Where a step of a request
//! needs simulated time, `step` returns, and the simulation goes on until one of these calls it
//! again:
//!
//! * The counter of the unit that runs has changed. The change itself only asks for a call at the
//!   end of the moment, when all that the design writes in that moment is written.
//! * The time of a `Run` is over.
//! * A look at the host. Looks are so far apart in simulated time that about [`LOOK`] passes on the
//!   clock on the wall between two of them. They find out that the host has gone, tell the host
//!   that the module is alive, and end a job that takes too long.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::design::{self, Memory, Registers};
use crate::peer::{Peer, Place, is_malformed};
use crate::vpi::{Callback, Handle, Vpi, When};
use arrow_device_vpi_protocol::{
    Answer, Done, Hello, LONGEST, Outcome, Request, Step, Unit, Welcome,
};

/// How long it should take from one look at the host to the next.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// How often the host is told that the module is alive.
const PULSE: Duration = Duration::from_millis(500);
/// The longest answer: less than the longest message by what is beside the data.
const LONGEST_DATA: u64 = LONGEST as u64 - 8192;

/// What the simulator calls back.
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    /// Calls [`Server::look`].
    pub(crate) look: Callback,
    /// Asks for a call of [`Server::step`] at the end of the moment.
    pub(crate) changed: Callback,
}

pub(crate) struct Server {
    vpi: Vpi,
    callbacks: Callbacks,
    place: Place,
    /// Whether nobody was connected yet.
    is_first: bool,
    peer: Option<Peer>,
    design: Option<Design>,
    work: Option<Work>,
    /// Whether a call of `look` is asked for, and how far from now.
    is_looking: bool,
    interval: u64,
    last_look: Instant,
    last_pulse: Instant,
    registers: Registers,
    /// The counters whose changes are told.
    watched: HashSet<Handle>,
    /// Whether the simulation is to end.
    pub(crate) is_over: bool,
}

/// What a host has named.
struct Design {
    memory: Memory,
    dma: Unit,
    dma_registers: [String; 3],
    error: Option<Handle>,
    time_limit: u64,
    wall_limit: Duration,
}

/// A request that is being done.
struct Work {
    steps: VecDeque<Step>,
    number: u32,
    running: Option<Running>,
    /// Whether the register for faults is looked at behind the step that was begun.
    may_fail: bool,
    unknown: u64,
    data: Vec<u8>,
}

/// A step that takes simulated time.
enum Running {
    Job { start: Handle, done: Handle, before: (u64, bool), since: u64, began: Instant },
    Run { until: u64 },
}

/// What to do after a step.
enum Next {
    /// The step is done.
    Step,
    /// Simulated time goes on.
    Time,
    /// The request has ended.
    End(Outcome),
}

impl Server {
    pub(crate) fn new(vpi: Vpi, place: Place, callbacks: Callbacks) -> Self {
        Self {
            vpi,
            callbacks,
            place,
            is_first: true,
            peer: None,
            design: None,
            work: None,
            is_looking: false,
            interval: 1,
            last_look: Instant::now(),
            last_pulse: Instant::now(),
            registers: Registers::default(),
            watched: HashSet::new(),
            is_over: false,
        }
    }

    /// Does all that needs no simulated time.
    pub(crate) fn step(&mut self) {
        while !self.is_over {
            if let Some(work) = self.work.take() {
                if !self.go_on(work) {
                    return self.look_later();
                }
                continue;
            }
            let Some(peer) = &mut self.peer else {
                self.connect();
                continue;
            };
            match peer.receive() {
                Ok(Some(Request::Hello(hello))) => self.greet(hello),
                Ok(Some(Request::Steps(_))) if self.design.is_none() => {
                    self.refuse("the first message has to name the parts of the design".into());
                }
                Ok(Some(Request::Steps(steps))) => {
                    let steps = steps.into();
                    self.work = Some(Work {
                        steps,
                        number: 0,
                        running: None,
                        may_fail: false,
                        unknown: 0,
                        data: Vec::new(),
                    });
                }
                Ok(None) => self.peer_is_gone(),
                Err(error) if is_malformed(&error) => self.refuse(error.to_string()),
                Err(_) => self.peer_is_gone(),
            }
        }
    }

    fn connect(&mut self) {
        match self.place.connect(std::mem::take(&mut self.is_first)) {
            Ok(Some(peer)) => self.peer = Some(peer),
            Ok(None) | Err(_) => self.finish(),
        }
    }

    fn finish(&mut self) {
        self.is_over = true;
        self.peer = None;
        self.vpi.finish();
    }

    /// Forgets the host. A unit that it has started is not started again.
    fn peer_is_gone(&mut self) {
        self.peer = None;
        self.design = None;
        if let Some(Work { running: Some(Running::Job { start, .. }), .. }) = self.work.take() {
            design::set(&self.vpi, start, 0);
        }
    }

    fn refuse(&mut self, reason: String) {
        self.send(&Answer::Ended(reason));
        self.peer_is_gone();
    }

    fn send(&mut self, answer: &Answer) {
        if let Some(peer) = &mut self.peer
            && peer.send(answer).is_err()
        {
            self.peer_is_gone();
        }
    }

    fn greet(&mut self, hello: Hello) {
        match self.design_of(hello) {
            Ok(design) => {
                let welcome = Welcome {
                    word: design.memory.word() as u32,
                    words: design.memory.words(),
                    precision: self.vpi.precision(),
                    simulator: self.vpi.simulator(),
                };
                self.design = Some(design);
                self.send(&Answer::Welcome(welcome));
            }
            Err(reason) => self.refuse(reason),
        }
    }

    fn design_of(&mut self, hello: Hello) -> Result<Design, String> {
        let memory = Memory::find(&self.vpi, &hello.memory)?;
        let Hello { dma, dma_registers, .. } = hello;
        if !dma.start.is_empty() {
            for name in [&dma.start, &dma.done].into_iter().chain(&dma_registers) {
                self.registers.find(&self.vpi, name)?;
            }
        }
        let error = match hello.error.is_empty() {
            true => None,
            false => Some(self.registers.find(&self.vpi, &hello.error)?),
        };
        let wall_limit = Duration::from_millis(hello.wall_limit);
        let time_limit = hello.time_limit;
        Ok(Design { memory, dma, dma_registers, error, time_limit, wall_limit })
    }

    /// Goes on with a request. Whether the request has ended.
    fn go_on(&mut self, mut work: Work) -> bool {
        let outcome = loop {
            let next = match &work.running {
                Some(running) => self.look_at(running),
                None => match work.steps.pop_front() {
                    Some(step) => self.begin(step, &mut work),
                    None => Next::End(Outcome::Well),
                },
            };
            match next {
                Next::Step => {
                    work.running = None;
                    if std::mem::take(&mut work.may_fail)
                        && let Some(code) = self.fault()
                    {
                        break Outcome::Fault { step: work.number, code };
                    }
                    work.number += 1;
                }
                Next::Time => {
                    self.work = Some(work);
                    return false;
                }
                Next::End(Outcome::Refused { reason, .. }) => {
                    break Outcome::Refused { step: work.number, reason };
                }
                Next::End(Outcome::Stuck { .. }) => break Outcome::Stuck { step: work.number },
                Next::End(outcome) => break outcome,
            }
        };
        let data = if outcome == Outcome::Well { work.data } else { Vec::new() };
        let done = Done { outcome, time: self.vpi.time(), unknown: work.unknown, data };
        self.send(&Answer::Done(done));
        true
    }

    /// The value of the register for faults, where it is not 0. The register is 0 afterwards.
    fn fault(&mut self) -> Option<u64> {
        let error = self.design.as_ref()?.error?;
        let (code, _) = design::get(&self.vpi, error);
        if code != 0 {
            design::set(&self.vpi, error, 0);
        }
        (code != 0).then_some(code)
    }

    fn begin(&mut self, step: Step, work: &mut Work) -> Next {
        work.may_fail = !matches!(step, Step::Set { .. } | Step::Get { .. } | Step::Run { .. });
        match self.try_to_begin(step, work) {
            Ok(next) => next,
            Err(reason) => Next::End(Outcome::Refused { step: 0, reason }),
        }
    }

    fn try_to_begin(&mut self, step: Step, work: &mut Work) -> Result<Next, String> {
        let Some(design) = &mut self.design else { return Err("no design is named".into()) };
        let vpi = &self.vpi;
        let outside = || "the bytes are not all inside the memory".to_owned();
        match step {
            Step::Write { at, bytes } => {
                if !design.memory.has(at, bytes.len() as u64) {
                    return Err(outside());
                }
                design.memory.write(vpi, at, &bytes);
            }
            Step::Read { at, len } => {
                if !design.memory.has(at, len) {
                    return Err(outside());
                }
                if work.data.len() as u64 + len > LONGEST_DATA {
                    return Err("the answer would be too long".into());
                }
                work.unknown += design.memory.read(vpi, at, len, &mut work.data);
            }
            Step::Copy { from, to, len } => {
                if !design.memory.has(from, len) || !design.memory.has(to, len) {
                    return Err(outside());
                }
                if design.dma.start.is_empty() {
                    let mut bytes = Vec::new();
                    design.memory.read(vpi, from, len, &mut bytes);
                    design.memory.write(vpi, to, &bytes);
                    return Ok(Next::Step);
                }
                let registers = design.dma_registers.clone().into_iter().zip([from, to, len]);
                let unit = design.dma.clone();
                return self.start(&unit, registers.collect(), work);
            }
            Step::Job { unit, registers } => return self.start(&unit, registers, work),
            Step::Set { name, value } => {
                let register = self.registers.with_room(vpi, &name, value)?;
                design::set(vpi, register, value);
            }
            Step::Get { name } => {
                let (value, is_known) = design::get(vpi, self.registers.find(vpi, &name)?);
                work.unknown += u64::from(!is_known);
                work.data.extend(value.to_le_bytes());
            }
            Step::Run { time: 0 } => {}
            Step::Run { time } => {
                let until = vpi.time().saturating_add(time);
                if !vpi.call_back(When::After(time), self.callbacks.changed) {
                    return Err("the simulator does not call back".into());
                }
                work.running = Some(Running::Run { until });
                return Ok(Next::Time);
            }
        }
        Ok(Next::Step)
    }

    /// Sets registers, and starts a unit. Nothing is set unless everything can be.
    fn start(
        &mut self,
        unit: &Unit,
        values: Vec<(String, u64)>,
        work: &mut Work,
    ) -> Result<Next, String> {
        let vpi = &self.vpi;
        let start = self.registers.with_room(vpi, &unit.start, 1)?;
        let done = self.registers.find(vpi, &unit.done)?;
        let mut registers = Vec::new();
        for (name, value) in &values {
            registers.push((self.registers.with_room(vpi, name, *value)?, *value));
        }
        if !self.watched.contains(&done) {
            if !vpi.call_back(When::Changes(done), self.callbacks.changed) {
                return Err(format!("the simulator does not tell when `{}` changes", unit.done));
            }
            self.watched.insert(done);
        }
        registers.into_iter().for_each(|(register, value)| design::set(vpi, register, value));
        let before = design::get(vpi, done);
        design::set(vpi, start, 1);
        let (since, began) = (vpi.time(), Instant::now());
        work.running = Some(Running::Job { start, done, before, since, began });
        Ok(Next::Time)
    }

    /// Whether a step that takes simulated time is done.
    fn look_at(&self, running: &Running) -> Next {
        let now = self.vpi.time();
        match *running {
            Running::Run { until } if now < until => Next::Time,
            Running::Run { .. } => Next::Step,
            Running::Job { start, done, before, since, began } => {
                if design::get(&self.vpi, done) != before {
                    design::set(&self.vpi, start, 0);
                    return Next::Step;
                }
                let limits =
                    self.design.as_ref().map(|design| (design.time_limit, design.wall_limit));
                let (time, wall) = limits.unwrap_or_default();
                let is_late = time != 0 && now.saturating_sub(since) >= time
                    || !wall.is_zero() && began.elapsed() >= wall;
                match is_late {
                    true => {
                        design::set(&self.vpi, start, 0);
                        Next::End(Outcome::Stuck { step: 0 })
                    }
                    false => Next::Time,
                }
            }
        }
    }

    /// Asks for a look at the host while simulated time goes on.
    fn look_later(&mut self) {
        if self.is_looking {
            return;
        }
        self.last_look = Instant::now();
        let mut interval = self.interval;
        // Not later than a job may end.
        let limit = self.design.as_ref().map_or(0, |design| design.time_limit);
        if limit != 0 {
            interval = interval.min(limit);
        }
        self.is_looking = self.vpi.call_back(When::After(interval), self.callbacks.look);
    }

    /// Looks whether the host is there, and after the job that runs.
    pub(crate) fn look(&mut self) {
        self.is_looking = false;
        if self.is_over {
            return;
        }
        let took = self.last_look.elapsed();
        if took < LOOK / 2 {
            self.interval = self.interval.saturating_mul(2).min(1 << 40);
        } else if took > LOOK * 2 {
            self.interval = (self.interval / 2).max(1);
        }
        if self.peer.as_ref().is_some_and(Peer::has_gone) {
            self.peer_is_gone();
        }
        if self.work.is_some() && self.last_pulse.elapsed() > PULSE {
            self.last_pulse = Instant::now();
            self.send(&Answer::Alive);
        }
        self.step();
    }

    /// Tells the host that the simulation has ended.
    pub(crate) fn end(&mut self) {
        if !self.is_over {
            let time = self.vpi.time();
            self.send(&Answer::Ended(format!(
                "the design has ended the simulation at time {time}"
            )));
            self.is_over = true;
            self.peer = None;
        }
    }
}
