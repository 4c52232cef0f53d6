//! The memory and the registers of the user's design.
//!
//! The memory is an array of words. Byte `n` of the memory is the byte `n % w` of the word `n / w`,
//! where `w` is the number of bytes in a word and the lowest bits of a word are its byte 0.

use std::collections::HashMap;

use crate::vpi::{Chunk, Handle, Vpi};

/// The longest word in bytes.
const LONGEST_WORD: usize = 4096;

/// The array of words.
pub(crate) struct Memory {
    array: Handle,
    first: i32,
    word: usize,
    words: u64,
    /// The handles of words, each looked up once.
    handles: Vec<Option<Handle>>,
    /// Room for a word.
    chunks: Vec<Chunk>,
}

impl Memory {
    /// Finds an array.
    pub(crate) fn find(vpi: &Vpi, name: &str) -> Result<Self, String> {
        let no_array = || format!("the design has no array `{name}`");
        let array = vpi.named(name).filter(|array| !vpi.has_value(*array));
        let array = array.ok_or_else(no_array)?;
        let first = vpi.first_index(array).ok_or_else(no_array)?;
        let words = vpi.size(array);
        let word = vpi.word(array, first).ok_or_else(no_array)?;
        let bits = vpi.size(word) as usize;
        if bits == 0 || !bits.is_multiple_of(8) || bits / 8 > LONGEST_WORD {
            return Err(format!("the words of `{name}` have {bits} bits, and not whole bytes"));
        }
        if bits as u64 > vpi.widest().into() {
            let widest = vpi.widest();
            return Err(format!(
                "the words of `{name}` have {bits} bits, and the simulator reads {widest} at most"
            ));
        }
        check_writable(vpi, word, name)?;
        vpi.give_back(word);
        let chunks = vec![Chunk::default(); bits.div_ceil(32)];
        let handles = if vpi.is_in_program() { Vec::new() } else { vec![None; words as usize] };
        Ok(Self { array, first, word: bits / 8, words: words.into(), handles, chunks })
    }

    pub(crate) fn word(&self) -> usize {
        self.word
    }

    pub(crate) fn words(&self) -> u64 {
        self.words
    }

    /// Whether all of these bytes are in the memory.
    pub(crate) fn has(&self, at: u64, len: u64) -> bool {
        let size = self.words * self.word as u64;
        at.checked_add(len).is_some_and(|end| end <= size)
    }

    /// Does something with the handle of a word.
    fn with_word<T>(
        &mut self,
        vpi: &Vpi,
        number: usize,
        work: impl FnOnce(Handle, &mut [Chunk]) -> T,
    ) -> Result<T, String> {
        let missing = || format!("the simulator does not give word {number} of the memory");
        let index = i32::try_from(number).ok().and_then(|number| number.checked_add(self.first));
        let look_up = || vpi.word(self.array, index?);
        if vpi.is_in_program() {
            // Verilator makes an object for each handle: a memory of them would be larger than the
            // design's.
            let handle = look_up().ok_or_else(missing)?;
            let done = work(handle, &mut self.chunks);
            vpi.give_back(handle);
            return Ok(done);
        }
        let known = self.handles.get_mut(number).ok_or_else(missing)?;
        *known = known.or_else(look_up);
        let handle = (*known).ok_or_else(missing)?;
        Ok(work(handle, &mut self.chunks))
    }

    /// Appends bytes of the memory, and returns of how many a bit is unknown.
    pub(crate) fn read(
        &mut self,
        vpi: &Vpi,
        at: u64,
        len: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<u64, String> {
        let mut unknown = 0;
        for Piece { number, from, len } in pieces(self.word, at, len) {
            self.load(vpi, number)?;
            for index in from..from + len {
                let (byte, is_known) = byte_of(&self.chunks, index);
                bytes.push(byte);
                unknown += u64::from(!is_known);
            }
        }
        Ok(unknown)
    }

    /// Writes bytes to the memory: all of them, or none.
    pub(crate) fn write(&mut self, vpi: &Vpi, at: u64, bytes: &[u8]) -> Result<(), String> {
        for Piece { number, len, .. } in pieces(self.word, at, bytes.len() as u64) {
            if len < self.word {
                self.load(vpi, number)?;
            }
            self.with_word(vpi, number, |_, _| ())?;
        }
        let mut rest = bytes;
        for Piece { number, from, len } in pieces(self.word, at, bytes.len() as u64) {
            let (piece, others) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            rest = others;
            if len < self.word {
                self.load(vpi, number)?;
            }
            for (index, byte) in (from..).zip(piece) {
                set_byte(&mut self.chunks, index, *byte);
            }
            self.with_word(vpi, number, |handle, chunks| _ = vpi.write(handle, chunks))?;
        }
        Ok(())
    }

    fn load(&mut self, vpi: &Vpi, number: usize) -> Result<(), String> {
        match self.with_word(vpi, number, |handle, chunks| vpi.read(handle, chunks))? {
            true => Ok(()),
            false => Err(format!("the simulator gives no value of word {number} of the memory")),
        }
    }
}

/// Fails where the simulator says that a value cannot be set. Verilator ignores what is set
/// otherwise, and a unit would never start.
fn check_writable(vpi: &Vpi, handle: Handle, name: &str) -> Result<(), String> {
    if !vpi.is_in_program() {
        return Ok(());
    }
    let mut chunks = vec![Chunk::default(); vpi.size(handle).div_ceil(32) as usize];
    vpi.read(handle, &mut chunks);
    match vpi.write(handle, &mut chunks) {
        true => Ok(()),
        false => Err(format!("`{name}` cannot be set: verilate the design with --public-flat-rw")),
    }
}

/// A part of a word.
struct Piece {
    number: usize,
    from: usize,
    len: usize,
}

/// The parts of words that bytes consist of.
fn pieces(word: usize, at: u64, len: u64) -> impl Iterator<Item = Piece> {
    let (mut at, end, word) = (at, at.saturating_add(len), word as u64);
    std::iter::from_fn(move || {
        let from = at % word;
        let len = (word - from).min(end - at);
        let piece = Piece { number: (at / word) as usize, from: from as usize, len: len as usize };
        at += len;
        (len > 0).then_some(piece)
    })
}

/// A byte, whose unknown bits are 0, and whether all of its bits are known.
fn byte_of(chunks: &[Chunk], index: usize) -> (u8, bool) {
    let Chunk { a, b } = chunks.get(index / 4).copied().unwrap_or_default();
    let shift = 8 * (index % 4);
    ((a & !b).wrapping_shr(shift as u32) as u8, b.wrapping_shr(shift as u32) as u8 == 0)
}

fn set_byte(chunks: &mut [Chunk], index: usize, byte: u8) {
    let Some(chunk) = chunks.get_mut(index / 4) else { return };
    let shift = 8 * (index % 4) as u32;
    chunk.a = chunk.a & !(0xff << shift) | u32::from(byte) << shift;
    chunk.b &= !(0xff << shift);
}

/// Registers and nets by their names, each looked up once.
#[derive(Default)]
pub(crate) struct Registers(HashMap<String, Handle>);

/// The most names that are remembered.
const MOST_NAMES: usize = 1 << 16;

impl Registers {
    pub(crate) fn find(&mut self, vpi: &Vpi, name: &str) -> Result<Handle, String> {
        if let Some(known) = self.0.get(name) {
            return Ok(*known);
        }
        let nothing = || format!("the design has nothing named `{name}`");
        let found = vpi.named(name).ok_or_else(nothing)?;
        let bits = vpi.size(found);
        if bits == 0 || !vpi.has_value(found) {
            return Err(format!("`{name}` is no register and no net"));
        }
        if bits > vpi.widest() {
            let widest = vpi.widest();
            return Err(format!(
                "`{name}` has {bits} bits, and the simulator reads {widest} at most"
            ));
        }
        if self.0.len() < MOST_NAMES {
            self.0.insert(name.to_owned(), found);
        }
        Ok(found)
    }

    /// Finds a register that has room for a value.
    pub(crate) fn with_room(
        &mut self,
        vpi: &Vpi,
        name: &str,
        value: u64,
    ) -> Result<Handle, String> {
        let found = self.find(vpi, name)?;
        let bits = vpi.size(found);
        match bits < u64::BITS && value >> bits != 0 {
            true => Err(format!("`{name}` has {bits} bits, which are too few for {value}")),
            false => check_writable(vpi, found, name).map(|()| found),
        }
    }
}

/// Sets a register. Bits above the lowest 64 become 0.
pub(crate) fn set(vpi: &Vpi, register: Handle, value: u64) {
    let mut chunks = vec![Chunk::default(); vpi.size(register).div_ceil(32).max(2) as usize];
    for (chunk, shift) in chunks.iter_mut().zip([0, 32]) {
        chunk.a = (value >> shift) as u32;
    }
    vpi.write(register, &mut chunks);
}

/// The lowest 64 bits of a register, with unknown bits as 0, and whether all of them are known.
pub(crate) fn get(vpi: &Vpi, register: Handle) -> (u64, bool) {
    let mut chunks = [Chunk::default(); 2];
    let is_there = vpi.read(register, &mut chunks);
    let [low, high] = chunks;
    let number = |of: fn(Chunk) -> u32| u64::from(of(high)) << 32 | u64::from(of(low));
    (number(|chunk| chunk.a & !chunk.b), is_there && number(|chunk| chunk.b) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_at_the_ends_of_words() {
        let cut = |at, len| -> Vec<_> {
            pieces(8, at, len).map(|piece| (piece.number, piece.from, piece.len)).collect()
        };
        assert_eq!(cut(8, 8), [(1, 0, 8)]);
        assert_eq!(cut(3, 2), [(0, 3, 2)]);
        assert_eq!(cut(6, 12), [(0, 6, 2), (1, 0, 8), (2, 0, 2)]);
        assert_eq!(cut(6, 0), []);
    }

    /// A word that the simulator does not give has no bytes, and what would be written in part is
    /// not written.
    #[test]
    fn a_word_that_the_simulator_does_not_give_is_an_error() {
        let vpi = crate::vpi::fake::vpi();
        let mut memory = Memory::find(&vpi, "tb.memory").unwrap();
        assert_eq!((memory.word(), memory.words()), (8, 5));
        memory.write(&vpi, 4, &[1; 12]).unwrap();
        let before = crate::vpi::fake::words();
        let mut bytes = Vec::new();
        assert_eq!(memory.read(&vpi, 2, 14, &mut bytes), Ok(0));
        assert_eq!(bytes, [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let (no_word, no_value) = ("does not give word 2", "gives no value of word 3");
        for (at, len, reason) in [(8, 16, no_word), (20, 2, no_word), (30, 2, no_value)] {
            let refused = memory.read(&vpi, at, len, &mut Vec::new()).unwrap_err();
            assert!(refused.contains(reason), "{at}: {refused}");
            let refused = memory.write(&vpi, at, &vec![7; len as usize]).unwrap_err();
            assert!(refused.contains(reason), "{at}: {refused}");
        }
        assert_eq!(crate::vpi::fake::words(), before);
    }

    #[test]
    fn a_byte_is_set_among_others() {
        let mut chunks = [Chunk { a: u32::MAX, b: u32::MAX }; 2];
        set_byte(&mut chunks, 5, 0x12);
        assert_eq!(byte_of(&chunks, 5), (0x12, true));
        assert_eq!(byte_of(&chunks, 4), (0, false));
        assert_eq!(byte_of(&chunks, 6), (0, false));
    }
}
