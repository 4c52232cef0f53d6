//! The messages between the driver and the module.
//!
//! A message is its kind and the length of its body, four bytes each, and the body. Numbers are
//! little-endian; a text or a list of bytes is its length in four bytes, and the bytes. The driver
//! sends one request and reads the one answer to it; the module may send any number of `Alive`
//! before the answer.
//!
//! Neither side trusts the other one: the length of a body is bounded before memory is taken for
//! it, a body that ends too early or too late is refused, and so is a number that stands for
//! nothing. Lists that are announced longer than their body take no memory.

use std::fmt;
use std::io::{self, Read, Write};

/// The version of the protocol. Both sides have to have the same.
pub const VERSION: u32 = 1;
/// The longest body.
pub const LONGEST: u32 = 32 << 20;
/// The longest text: a name in the design, or the reason of a refusal.
pub const LONGEST_TEXT: usize = 4096;
/// The most registers that a job sets.
pub const MOST_REGISTERS: usize = 256;

/// What the driver asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message: which parts of the design the driver uses.
    Hello(Hello),
    /// A list of steps, done one after the other.
    Steps(Vec<Step>),
}

/// The parts of a design that are named in the first message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The array of words that is the memory.
    pub memory: String,
    /// The unit that copies inside the memory. Its names are empty if there is none: the module
    /// then copies.
    pub dma: Unit,
    /// The registers of the unit for the source, the destination and the length, in bytes.
    pub dma_registers: [String; 3],
    /// A register that is not 0 where the design has found a fault. Empty if there is none.
    pub error: String,
    /// How much simulated time a job may take, in units of the simulator's precision. 0 is any.
    pub time_limit: u64,
    /// How many milliseconds of the clock on the wall a job may take. 0 is any.
    pub wall_limit: u64,
}

/// A part of a design that is started and counts what it has completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// The register that is 1 until the counter changes.
    pub start: String,
    /// The counter.
    pub done: String,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes are written to the memory.
    Write {
        /// Where the first byte goes.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes of the memory are part of the answer.
    Read {
        /// Where the first byte is.
        at: u64,
        /// The number of bytes.
        len: u64,
    },
    /// The design's own unit copies bytes.
    Copy {
        /// Where the first byte is.
        from: u64,
        /// Where the first byte goes.
        to: u64,
        /// The number of bytes.
        len: u64,
    },
    /// Registers are set, and a unit is started. The step ends when its counter changes.
    Job {
        /// The unit.
        unit: Unit,
        /// The registers and their values.
        registers: Vec<(String, u64)>,
    },
    /// A register is set.
    Set {
        /// The name of the register.
        name: String,
        /// The value.
        value: u64,
    },
    /// The value of a register or net is part of the answer, as eight bytes.
    Get {
        /// The name of the register or net.
        name: String,
    },
    /// Simulated time goes on for so long, in units of the simulator's precision.
    Run {
        /// How long.
        time: u64,
    },
}

impl Step {
    /// How many bytes of the answer are this step's.
    pub fn answer_len(&self) -> u64 {
        match self {
            Self::Read { len, .. } => *len,
            Self::Get { .. } => 8,
            _ => 0,
        }
    }
}

/// What the module answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to `Hello`.
    Welcome(Welcome),
    /// The answer to `Steps`.
    Done(Done),
    /// The module is at work.
    Alive,
    /// The simulation has ended, or cannot go on, for this reason. Nothing follows.
    Ended(String),
}

/// What the module found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The number of bytes in a word of the memory.
    pub word: u32,
    /// The number of words.
    pub words: u64,
    /// The simulated time, in units of ten to this power of a second.
    pub precision: i32,
    /// The name and the version of the simulator.
    pub simulator: String,
}

/// How a list of steps ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The outcome.
    pub outcome: Outcome,
    /// The simulated time of the end.
    pub time: u64,
    /// How many bytes were read of which at least a bit was unknown (`x`, `z`). Such bits read as
    /// 0.
    pub unknown: u64,
    /// What was read, one step's bytes after the other's. Nothing unless all went well.
    pub data: Vec<u8>,
}

/// The outcome of a list of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps were done.
    Well,
    /// The register for faults had this value behind this step. Later steps were not begun.
    Fault {
        /// The number of the step.
        step: u32,
        /// The value.
        code: u64,
    },
    /// A step cannot be done, for this reason. Later steps were not begun, and the step changed
    /// nothing.
    Refused {
        /// The number of the step.
        step: u32,
        /// The reason.
        reason: String,
    },
    /// A job did not complete in its time, and may go on.
    Stuck {
        /// The number of the step.
        step: u32,
    },
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message is malformed: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(io::ErrorKind::InvalidData, malformed)
    }
}

/// Receives the kind and the body of a message. The body has at most so many bytes. `None` where
/// the peer has closed the connection between two messages.
pub fn receive(from: &mut impl Read, longest: u64) -> io::Result<Option<(u32, Vec<u8>)>> {
    let mut head = [0; 8];
    let mut filled = 0;
    while let Some(rest @ [_, ..]) = head.get_mut(filled..) {
        match from.read(rest) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [a, b, c, d, e, f, g, h] = head;
    let (kind, len) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if u64::from(len) > longest.min(LONGEST.into()) {
        return Err(Malformed("its body is too long").into());
    }
    let mut body = vec![0; len as usize];
    from.read_exact(&mut body)?;
    Ok(Some((kind, body)))
}

/// Sends a message as one write, where the system takes it at once.
pub fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    to.write_all(message)
}

const HELLO: u32 = 1;
const STEPS: u32 = 2;
const WELCOME: u32 = 101;
const DONE: u32 = 102;
const ALIVE: u32 = 103;
const ENDED: u32 = 104;

impl Request {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello(hello) => {
                let mut body = Body::of(HELLO);
                body.u32(VERSION).text(&hello.memory).text(&hello.dma.start).text(&hello.dma.done);
                hello.dma_registers.iter().for_each(|name| _ = body.text(name));
                body.text(&hello.error).u64(hello.time_limit).u64(hello.wall_limit);
                body.end()
            }
            Self::Steps(steps) => {
                let mut body = Body::of(STEPS);
                body.u32(steps.len() as u32);
                steps.iter().for_each(|step| encode_step(&mut body, step));
                body.end()
            }
        }
    }

    /// Reads a message.
    pub fn decode(kind: u32, body: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(body);
        let request = match kind {
            HELLO => {
                if rest.u32()? != VERSION {
                    return Err(Malformed("the driver and the module have different versions"));
                }
                let memory = rest.text()?;
                let dma = Unit { start: rest.text()?, done: rest.text()? };
                let dma_registers = [rest.text()?, rest.text()?, rest.text()?];
                let (error, time_limit, wall_limit) = (rest.text()?, rest.u64()?, rest.u64()?);
                let hello = Hello { memory, dma, dma_registers, error, time_limit, wall_limit };
                Self::Hello(hello)
            }
            STEPS => {
                let count = rest.u32()?;
                let mut steps = Vec::new();
                for _ in 0..count {
                    steps.push(decode_step(&mut rest)?);
                }
                Self::Steps(steps)
            }
            _ => return Err(Malformed("its kind is none of a request")),
        };
        rest.end().map(|()| request)
    }
}

fn encode_step(body: &mut Body, step: &Step) {
    match step {
        Step::Write { at, bytes } => body.u32(0).u64(*at).bytes(bytes),
        Step::Read { at, len } => body.u32(1).u64(*at).u64(*len),
        Step::Copy { from, to, len } => body.u32(2).u64(*from).u64(*to).u64(*len),
        Step::Job { unit, registers } => {
            body.u32(3).text(&unit.start).text(&unit.done).u32(registers.len() as u32);
            registers.iter().for_each(|(name, value)| _ = body.text(name).u64(*value));
            body
        }
        Step::Set { name, value } => body.u32(4).text(name).u64(*value),
        Step::Get { name } => body.u32(5).text(name),
        Step::Run { time } => body.u32(6).u64(*time),
    };
}

fn decode_step(rest: &mut Rest<'_>) -> Result<Step, Malformed> {
    Ok(match rest.u32()? {
        0 => Step::Write { at: rest.u64()?, bytes: rest.bytes()?.to_vec() },
        1 => Step::Read { at: rest.u64()?, len: rest.u64()? },
        2 => Step::Copy { from: rest.u64()?, to: rest.u64()?, len: rest.u64()? },
        3 => {
            let unit = Unit { start: rest.text()?, done: rest.text()? };
            let count = rest.u32()? as usize;
            if count > MOST_REGISTERS {
                return Err(Malformed("a job sets too many registers"));
            }
            let mut registers = Vec::new();
            for _ in 0..count {
                registers.push((rest.text()?, rest.u64()?));
            }
            Step::Job { unit, registers }
        }
        4 => Step::Set { name: rest.text()?, value: rest.u64()? },
        5 => Step::Get { name: rest.text()? },
        6 => Step::Run { time: rest.u64()? },
        _ => return Err(Malformed("a step is none that there is")),
    })
}

impl Answer {
    /// The message. Texts are cut to the longest that there is.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Welcome(welcome) => {
                let mut body = Body::of(WELCOME);
                body.u32(VERSION).u32(welcome.word).u64(welcome.words);
                body.u32(welcome.precision.cast_unsigned()).text(&welcome.simulator);
                body.end()
            }
            Self::Done(done) => {
                let mut body = Body::of(DONE);
                match &done.outcome {
                    Outcome::Well => body.u32(0),
                    Outcome::Fault { step, code } => body.u32(1).u32(*step).u64(*code),
                    Outcome::Refused { step, reason } => body.u32(2).u32(*step).text(reason),
                    Outcome::Stuck { step } => body.u32(3).u32(*step),
                };
                body.u64(done.time).u64(done.unknown).bytes(&done.data);
                body.end()
            }
            Self::Alive => Body::of(ALIVE).end(),
            Self::Ended(reason) => {
                let mut body = Body::of(ENDED);
                body.text(reason);
                body.end()
            }
        }
    }

    /// Reads a message.
    pub fn decode(kind: u32, body: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(body);
        let answer = match kind {
            WELCOME => {
                if rest.u32()? != VERSION {
                    return Err(Malformed("the module and the driver have different versions"));
                }
                let (word, words) = (rest.u32()?, rest.u64()?);
                let (precision, simulator) = (rest.u32()?.cast_signed(), rest.text()?);
                Self::Welcome(Welcome { word, words, precision, simulator })
            }
            DONE => {
                let outcome = match rest.u32()? {
                    0 => Outcome::Well,
                    1 => Outcome::Fault { step: rest.u32()?, code: rest.u64()? },
                    2 => Outcome::Refused { step: rest.u32()?, reason: rest.text()? },
                    3 => Outcome::Stuck { step: rest.u32()? },
                    _ => return Err(Malformed("an outcome is none that there is")),
                };
                let (time, unknown) = (rest.u64()?, rest.u64()?);
                Self::Done(Done { outcome, time, unknown, data: rest.bytes()?.to_vec() })
            }
            ALIVE => Self::Alive,
            ENDED => Self::Ended(rest.text()?),
            _ => return Err(Malformed("its kind is none of an answer")),
        };
        rest.end().map(|()| answer)
    }
}

/// A message that is being written.
struct Body(Vec<u8>);

impl Body {
    fn of(kind: u32) -> Self {
        let mut message = kind.to_le_bytes().to_vec();
        message.extend([0; 4]);
        Self(message)
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.0.extend(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let mut end = text.len().min(LONGEST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(text.get(..end).unwrap_or_default().as_bytes())
    }

    fn end(&mut self) -> Vec<u8> {
        let mut message = std::mem::take(&mut self.0);
        let len = message.len().saturating_sub(8) as u32;
        if let Some(place) = message.get_mut(4..8) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        message
    }
}

/// What is left of a body.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?;
        bytes.try_into().map(u32::from_le_bytes).map_err(|_| Malformed("it ends too early"))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?;
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| Malformed("it ends too early"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let bytes = self.bytes()?;
        if bytes.len() > LONGEST_TEXT {
            return Err(Malformed("a text is too long"));
        }
        String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a text is not UTF-8"))
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("something follows its end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        let unit = Unit { start: "tb.go".into(), done: "tb.done".into() };
        let steps = vec![
            Step::Write { at: 64, bytes: vec![1, 2, 3] },
            Step::Read { at: 65, len: 7 },
            Step::Copy { from: 1, to: 2, len: 3 },
            Step::Job { unit: unit.clone(), registers: vec![("tb.a".into(), u64::MAX)] },
            Step::Set { name: "tb.b".into(), value: 9 },
            Step::Get { name: "tb.ü".into() },
            Step::Run { time: 100 },
        ];
        let hello = Hello {
            memory: "tb.mem".into(),
            dma: unit,
            dma_registers: ["s", "d", "l"].map(String::from),
            error: String::new(),
            time_limit: 5,
            wall_limit: 6,
        };
        vec![Request::Hello(hello), Request::Steps(steps), Request::Steps(Vec::new())]
    }

    fn answers() -> Vec<Answer> {
        let outcomes = [
            Outcome::Well,
            Outcome::Fault { step: 1, code: 2 },
            Outcome::Refused { step: 3, reason: "no".into() },
            Outcome::Stuck { step: 4 },
        ];
        let done = outcomes
            .map(|outcome| Answer::Done(Done { outcome, time: 7, unknown: 8, data: vec![9; 5] }));
        let welcome =
            Welcome { word: 64, words: 1 << 40, precision: -12, simulator: "Icarus".into() };
        let mut all = vec![Answer::Welcome(welcome), Answer::Alive, Answer::Ended("over".into())];
        all.extend(done);
        all
    }

    fn received(message: &[u8]) -> (u32, Vec<u8>) {
        receive(&mut &message[..], u64::MAX).unwrap().unwrap()
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for request in requests() {
            let (kind, body) = received(&request.encode());
            assert_eq!(Request::decode(kind, &body), Ok(request));
        }
        for answer in answers() {
            let (kind, body) = received(&answer.encode());
            assert_eq!(Answer::decode(kind, &body), Ok(answer));
        }
    }

    #[test]
    fn a_body_that_is_cut_or_longer_is_refused() {
        let requests = requests().into_iter().map(|request| request.encode());
        let answers = answers().into_iter().map(|answer| answer.encode());
        for message in requests.chain(answers) {
            let (kind, body) = received(&message);
            for len in 0..body.len() {
                assert!(Request::decode(kind, &body[..len]).is_err(), "{kind}, {len}");
                assert!(Answer::decode(kind, &body[..len]).is_err(), "{kind}, {len}");
            }
            let longer = [&body[..], &[0]].concat();
            assert!(Request::decode(kind, &longer).is_err(), "{kind}");
            assert!(Answer::decode(kind, &longer).is_err(), "{kind}");
        }
    }

    #[test]
    fn a_message_that_says_it_is_longer_than_any_takes_no_memory() {
        let message = [2_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        let refused = receive(&mut &message[..], u64::MAX).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let message = [102_u32.to_le_bytes(), 101_u32.to_le_bytes()].concat();
        let refused = receive(&mut &message[..], 100).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn lists_that_say_they_are_longer_than_their_body_are_refused() {
        let steps = u32::MAX.to_le_bytes();
        assert!(Request::decode(STEPS, &steps).is_err());
        // A job with more registers than there may be, one too few of them written.
        let job = Step::Job { unit: Unit::default(), registers: Vec::new() };
        let mut body = received(&Request::Steps(vec![job]).encode()).1;
        let at = body.len() - 4;
        body[at..].copy_from_slice(&300_u32.to_le_bytes());
        let refused = Request::decode(STEPS, &body).unwrap_err();
        assert_eq!(refused.to_string(), "a message is malformed: a job sets too many registers");
    }

    #[test]
    fn every_byte_of_a_message_may_be_another_one() {
        let requests = requests().into_iter().map(|request| request.encode());
        let answers = answers().into_iter().map(|answer| answer.encode());
        for message in requests.chain(answers) {
            let (kind, body) = received(&message);
            for at in 0..body.len() {
                for change in [1, 0x80, 0xff] {
                    let mut body = body.clone();
                    body[at] ^= change;
                    // Refused or read as something else, and read again as the same.
                    if let Ok(request) = Request::decode(kind, &body) {
                        let (kind, body) = received(&request.encode());
                        assert_eq!(Request::decode(kind, &body), Ok(request));
                    }
                    if let Ok(answer) = Answer::decode(kind, &body) {
                        let (kind, body) = received(&answer.encode());
                        assert_eq!(Answer::decode(kind, &body), Ok(answer));
                    }
                }
            }
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "ü".repeat(LONGEST_TEXT);
        let (kind, body) = received(&Answer::Ended(text).encode());
        let Ok(Answer::Ended(text)) = Answer::decode(kind, &body) else { panic!("refused") };
        assert_eq!(text.len(), LONGEST_TEXT);
    }
}
