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
//! * A signal has come while `step` waited. The simulator acts on the signal, such as by ending,
//!   before it calls `step` again in the same moment.
//! * A look at the host. Looks are so far apart in simulated time that about [`LOOK`] passes on the
//! * A look at the host. Looks are so far apart in simulated time that about [`LOOK`] passes on the
//!   clock on the wall between two of them. Each request begins with looks that are near each
//!   other, because a design may do much in a time in which it did nothing before. Looks find out
//!   that the host has gone, tell the host that the module is alive, and end a job that takes too
//!   long.
//!
//! A job whose host has gone, or that has taken too long, goes on in the design: nothing stops a
//! unit. Another job of the unit would count the completion of that job as its own. So such a job
//! is remembered ([`Left`]), and a host that comes later is welcomed when that job has ended.
//! Simulated time stands still until then, unless a host waits for its welcome.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use crate::design::{self, Memory, Registers};
use crate::peer::{Peer, Place, is_malformed};
use crate::vpi::{Callback, Handle, Vpi, When};
use arrow_device_vpi_protocol::{
    Answer, Done, Hello, LONGEST, Outcome, Request, Step, Unit, Welcome,
};

/// How long it should take from one look at the host to the next.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// How far apart the first looks of a request are at most, in simulated time.
const FIRST_LOOKS: u64 = 1024;
/// How often the host is told that the module is alive.
const PULSE: Duration = Duration::from_millis(500);
/// The longest answer: less than the longest message by what is beside the data.
const LONGEST_DATA: u64 = LONGEST as u64 - 8192;

/// What the simulator calls back.
#[derive(Clone, Copy)]
pub(crate) struct Callbacks {
    /// Calls [`Server::look`].
    pub(crate) look: Callback,
    /// Calls [`Server::step`].
    pub(crate) step: Callback,
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
    /// A host that is not welcomed yet.
    greeting: Option<Greeting>,
    work: Option<Work>,
    left: Option<Left>,
    /// When `look` is to be called next, and how far apart such calls are.
    next_look: Option<u64>,
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

impl Design {
    /// Whether a job has taken too long.
    fn is_late(&self, took: u64, on_the_wall: Duration) -> bool {
        self.time_limit != 0 && took >= self.time_limit
            || !self.wall_limit.is_zero() && on_the_wall >= self.wall_limit
    }
}

/// A host that waits for the end of a job of an earlier one.
struct Greeting {
    design: Design,
    welcome: Welcome,
    since: u64,
    began: Instant,
}

/// A job that nobody waits for any more, and that may not have ended. Its unit's register for the
/// start is still 1, so that the job begins, if it has not.
#[derive(Clone, Copy)]
struct Left {
    start: Handle,
    done: Handle,
    before: (u64, bool),
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
            greeting: None,
            work: None,
            left: None,
            next_look: None,
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
            if let Some(greeting) = self.greeting.take() {
                if !self.welcome(greeting) {
                    return self.look_later();
                }
                continue;
            }
            let received = match &mut self.peer {
                Some(peer) => peer.receive(),
                None => match self.place.connect(std::mem::take(&mut self.is_first)) {
                    Ok(Some(peer)) => {
                        self.peer = Some(peer);
                        continue;
                    }
                    Ok(None) => return self.finish(),
                    Err(error) => Err(error),
                },
            };
            match received {
                Ok(Some(Request::Hello(hello))) => self.greet(hello),
                Ok(Some(Request::Steps(_))) if self.design.is_none() => {
                    self.refuse("the first message has to name the parts of the design".into());
                }
                Ok(Some(Request::Steps(_))) if self.left.is_some() => {
                    self.refuse("a job was given up, and may go on".into());
                }
                Ok(Some(Request::Steps(steps))) => {
                    self.look_often();
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
                // The simulator does what the signal asks for, and then calls again.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.vpi.call_back(When::Settled, self.callbacks.step);
                    return;
                }
                Err(_) if self.peer.is_none() => self.finish(),
                Err(error) if is_malformed(&error) => self.refuse(error.to_string()),
                Err(_) => self.peer_is_gone(),
            }
        }
    }

    fn finish(&mut self) {
        self.is_over = true;
        self.peer = None;
        self.vpi.finish();
    }

    /// Forgets the host, but not a job that it has begun.
    fn peer_is_gone(&mut self) {
        self.peer = None;
        self.design = None;
        self.greeting = None;
        if let Some(Work { running: Some(running), .. }) = self.work.take() {
            self.leave(&running);
        }
    }

    fn leave(&mut self, running: &Running) {
        if let Running::Job { start, done, before, .. } = *running {
            self.left = Some(Left { start, done, before });
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
                self.look_often();
                let (since, began) = (self.vpi.time(), Instant::now());
                self.greeting = Some(Greeting { design, welcome, since, began });
            }
            Err(reason) => self.refuse(reason),
        }
    }

    /// Welcomes a host, unless a job of an earlier one goes on. Whether simulated time need not go
    /// on.
    fn welcome(&mut self, greeting: Greeting) -> bool {
        let took = self.vpi.time().saturating_sub(greeting.since);
        if let Some(Left { start, done, before }) = self.left {
            if design::get(&self.vpi, done) != before {
                design::set(&self.vpi, start, 0);
                self.left = None;
                // A fault of that job is none of this host's work.
                if let Some(error) = greeting.design.error {
                    design::set(&self.vpi, error, 0);
                }
            } else if greeting.design.is_late(took, greeting.began.elapsed()) {
                self.refuse("a job that an earlier host has begun does not end".into());
                return true;
            } else {
                self.greeting = Some(greeting);
                return false;
            }
        }
        self.design = Some(greeting.design);
        self.send(&Answer::Welcome(greeting.welcome));
        true
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
                Next::End(Outcome::Stuck { .. }) => {
                    if let Some(running) = &work.running {
                        self.leave(running);
                    }
                    break Outcome::Stuck { step: work.number };
                }
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
                design.memory.write(vpi, at, &bytes)?;
            }
            Step::Read { at, len } => {
                if !design.memory.has(at, len) {
                    return Err(outside());
                }
                if work.data.len() as u64 + len > LONGEST_DATA {
                    return Err("the answer would be too long".into());
                }
                work.unknown += design.memory.read(vpi, at, len, &mut work.data)?;
            }
            Step::Copy { from, to, len } => {
                if !design.memory.has(from, len) || !design.memory.has(to, len) {
                    return Err(outside());
                }
                if design.dma.start.is_empty() {
                    let mut bytes = Vec::new();
                    design.memory.read(vpi, from, len, &mut bytes)?;
                    design.memory.write(vpi, to, &bytes)?;
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
                let took = now.saturating_sub(since);
                let design = self.design.as_ref();
                match design.is_some_and(|design| design.is_late(took, began.elapsed())) {
                    true => Next::End(Outcome::Stuck { step: 0 }),
                    false => Next::Time,
                }
            }
        }
    }

    /// Begins anew with looks that are near each other.
    fn look_often(&mut self) {
        self.interval = self.interval.min(FIRST_LOOKS);
        self.last_look = Instant::now();
    }

    /// Asks for a look at the host while simulated time goes on.
    fn look_later(&mut self) {
        let now = self.vpi.time();
        let greeted = self.greeting.as_ref().map(|greeting| &greeting.design);
        let mut interval = self.interval;
        // Not later than a job may end.
        if let Some(design) = self.design.as_ref().or(greeted)
            && design.time_limit != 0
        {
            interval = interval.min(design.time_limit);
        }
        let at = now.saturating_add(interval);
        if self.next_look.is_some_and(|next| next > now && next <= at) {
            return;
        }
        self.last_look = Instant::now();
        if self.vpi.call_back(When::After(interval), self.callbacks.look) {
            self.next_look = Some(at);
        }
    }

    /// Looks whether the host is there, and after the job that runs.
    pub(crate) fn look(&mut self) {
        if self.is_over {
            return;
        }
        // A look that was asked for before the next one says nothing about the interval.
        if self.next_look.is_some_and(|next| next <= self.vpi.time()) {
            self.next_look = None;
            let took = self.last_look.elapsed();
            if took < LOOK / 2 {
                self.interval = self.interval.saturating_mul(2).min(1 << 40);
            } else if took > LOOK * 2 {
                self.interval = (self.interval / 2).max(1);
            }
        }
        if self.peer.as_ref().is_some_and(Peer::has_gone) {
            self.peer_is_gone();
        }
        let is_awaited = self.work.is_some() || self.greeting.is_some();
        if is_awaited && self.last_pulse.elapsed() > PULSE {
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
