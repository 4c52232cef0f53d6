//! The source of all choices.

/// Choices, read one after the other from a string of bytes. When the bytes are used up, every
/// further choice is the first one, which is always the simplest.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Returns the choices that these bytes stand for.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether all choices that are left are the first one.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Chooses a byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// Chooses a number below `count`, which is not 0. One byte decides, so the number is one of
    /// the first 256.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// Chooses `true` once in `times` times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// Chooses one of these values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Chooses a number of eight bytes.
    pub fn number(&mut self) -> i64 {
        i64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Returns a source of bulk data, which nobody needs to choose in detail.
    pub fn noise(&mut self) -> Noise {
        Noise { state: u64::from(self.byte()) | u64::from(self.byte()) << 8 }
    }
}

/// Numbers without end, made from two bytes. Two zeros give zeros only, as long as nothing else is
/// chosen.
#[derive(Clone, Debug)]
pub struct Noise {
    state: u64,
}

impl Noise {
    /// Returns the next number: a step of the generator called splitmix64.
    pub fn number(&mut self) -> u64 {
        if self.state == 0 {
            return 0;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        (self.number() % count as u64) as usize
    }

    /// Returns `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number() as u8).collect()
    }
}
