//! Reads from a format string how arrays lie in memory. The generator and the oracle use it, which
//! share no code with the library.

/// How the arrays of a type lie in memory. A dictionary-encoded type has the shape of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A length and nothing else.
    Null,
    /// A bit for each element.
    Bits,
    /// This many bytes for each element.
    Fixed(usize),
    /// Offsets of this many bytes, and the bytes that they lead to.
    Bytes(usize),
    /// Views of 16 bytes, and data buffers.
    Views,
    /// Offsets of this many bytes into a child.
    List(usize),
    /// Starts and sizes of this many bytes into a child.
    ListView(usize),
    /// This many elements of a child for each element.
    FixedList(usize),
    /// Children side by side.
    Struct,
    /// The children of a sparse union, with their type ids.
    Sparse(Vec<u8>),
    /// The children of a dense union, with their type ids.
    Dense(Vec<u8>),
    /// Run ends and values.
    RunEnds,
}

impl Shape {
    /// Returns the shape of a valid format.
    ///
    /// # Panics
    /// Panics if the format is not valid.
    pub fn of(format: &[u8]) -> Self {
        let text = std::str::from_utf8(format).expect("a format");
        let (letters, parameters) = text.split_once(':').unwrap_or((text, ""));
        let size = || parameters.parse().expect("a size");
        let ids = || {
            let ids = parameters.split(',').filter(|id| !id.is_empty());
            ids.map(|id| id.parse().expect("a type id")).collect()
        };
        match letters {
            "n" => Self::Null,
            "b" => Self::Bits,
            "c" | "C" => Self::Fixed(1),
            "s" | "S" | "e" => Self::Fixed(2),
            "i" | "I" | "f" | "tdD" | "tts" | "ttm" | "tiM" => Self::Fixed(4),
            "l" | "L" | "g" | "tdm" | "ttu" | "ttn" | "tiD" => Self::Fixed(8),
            "tss" | "tsm" | "tsu" | "tsn" | "tDs" | "tDm" | "tDu" | "tDn" => Self::Fixed(8),
            "tin" => Self::Fixed(16),
            "d" => {
                let bits = parameters.split(',').nth(2).map_or(128, |bits| bits.parse().unwrap());
                Self::Fixed(bits / 8)
            }
            "w" => Self::Fixed(size()),
            "z" | "u" => Self::Bytes(4),
            "Z" | "U" => Self::Bytes(8),
            "vz" | "vu" => Self::Views,
            "+l" | "+m" => Self::List(4),
            "+L" => Self::List(8),
            "+vl" => Self::ListView(4),
            "+vL" => Self::ListView(8),
            "+w" => Self::FixedList(size()),
            "+s" => Self::Struct,
            "+us" => Self::Sparse(ids()),
            "+ud" => Self::Dense(ids()),
            "+r" => Self::RunEnds,
            _ => panic!("`{text}` is no format"),
        }
    }

    /// Whether the first buffer is a validity bitmap.
    pub fn has_validity(&self) -> bool {
        !matches!(self, Self::Null | Self::Sparse(_) | Self::Dense(_) | Self::RunEnds)
    }
}

/// Whether the elements of this format are UTF-8.
pub fn is_text(format: &[u8]) -> bool {
    matches!(format, b"u" | b"U" | b"vu")
}
