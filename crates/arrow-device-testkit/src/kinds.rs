//! Every type of the Arrow format, and arrays of them that are made by hand.

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use crate::plan::{Content, Nulls, Plan, Window, bits, integers, metadata};

/// A type, as far as its layout is concerned.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Every element is null.
    Null,
    /// One bit for each element.
    Bits,
    /// A format, and the number of bytes of an element.
    Fixed(&'static str, usize),
    /// A format, and the number of bytes of an offset.
    Text(&'static str, usize),
    /// Views of bytes, with this format.
    Views(&'static str),
    /// Lists: a format, and the number of bytes of an offset.
    List(&'static str, usize, Box<Kind>),
    /// List views: a format, and the number of bytes of a start and of a size.
    ListView(&'static str, usize, Box<Kind>),
    /// Lists of this many elements each.
    FixedList(usize, Box<Kind>),
    /// Fields side by side.
    Struct(Vec<Kind>),
    /// Keys and values.
    Map(Box<Kind>, Box<Kind>),
    /// A sparse union.
    Sparse(Vec<Kind>),
    /// A dense union.
    Dense(Vec<Kind>),
    /// A format, and the number of bytes of an index.
    Dictionary(&'static str, usize, Box<Kind>),
    /// A format, and the number of bytes of a run end.
    RunEnds(&'static str, usize, Box<Kind>),
    /// An extension type with this storage.
    Extension(Box<Kind>),
}

/// One array of the matrix.
#[derive(Clone, Debug)]
pub struct Case {
    kind: Arc<Kind>,
    window: Window,
    nulls: Nulls,
}

impl Case {
    /// Describes an array of this kind.
    pub fn new(kind: Kind, window: Window, nulls: Nulls) -> Self {
        Self { kind: Arc::new(kind), window, nulls }
    }

    /// Makes the plan of the array.
    pub fn plan(&self) -> Plan {
        self.kind.plan(self.window, self.nulls)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.kind, self.window, self.nulls)
    }
}

/// Returns all types without children.
pub fn leaves() -> Vec<Kind> {
    let fixed: [(&str, usize); 34] = [
        ("c", 1),
        ("C", 1),
        ("s", 2),
        ("S", 2),
        ("i", 4),
        ("I", 4),
        ("l", 8),
        ("L", 8),
        ("e", 2),
        ("f", 4),
        ("g", 8),
        ("d:7,2,32", 4),
        ("d:15,3,64", 8),
        ("d:30,2", 16),
        ("d:60,-4,256", 32),
        ("tdD", 4),
        ("tdm", 8),
        ("tts", 4),
        ("ttm", 4),
        ("ttu", 8),
        ("ttn", 8),
        ("tss:", 8),
        ("tsm:+05:30", 8),
        ("tsu:UTC", 8),
        ("tsn:Europe/Paris", 8),
        ("tDs", 8),
        ("tDm", 8),
        ("tDu", 8),
        ("tDn", 8),
        ("tiM", 4),
        ("tiD", 8),
        ("tin", 16),
        ("w:3", 3),
        ("w:0", 0),
    ];
    let text = [("z", 4), ("u", 4), ("Z", 8), ("U", 8)];
    [Kind::Null, Kind::Bits]
        .into_iter()
        .chain(fixed.map(|(format, width)| Kind::Fixed(format, width)))
        .chain(text.map(|(format, width)| Kind::Text(format, width)))
        .chain([Kind::Views("vz"), Kind::Views("vu")])
        .collect()
}

/// Returns every type that holds others, holding this one.
pub fn holders(of: &Kind) -> Vec<Kind> {
    let of = || Box::new(of.clone());
    let pair = || vec![*of(), Kind::Fixed("s", 2)];
    vec![
        Kind::List("+l", 4, of()),
        Kind::List("+L", 8, of()),
        Kind::ListView("+vl", 4, of()),
        Kind::ListView("+vL", 8, of()),
        Kind::FixedList(2, of()),
        Kind::Struct(pair()),
        Kind::Map(Box::new(Kind::Text("u", 4)), of()),
        Kind::Sparse(pair()),
        Kind::Dense(pair()),
        Kind::Dictionary("c", 1, of()),
        Kind::RunEnds("i", 4, of()),
        Kind::Extension(of()),
    ]
}

/// Returns every type, every holder of every leaf, every holder of every holder, and some that are
/// deep.
pub fn kinds() -> Vec<Kind> {
    let leaves = leaves();
    let number = Kind::Fixed("l", 8);
    let mut all = leaves.clone();
    all.extend(leaves.iter().flat_map(holders));
    all.extend(holders(&number).iter().flat_map(holders));
    all.extend(odd_ones());
    all
}

/// Returns other indices and run ends, types that hold nothing or several types, and types that are
/// deep or wide.
fn odd_ones() -> Vec<Kind> {
    let number = Kind::Fixed("l", 8);
    let mut all = Vec::new();
    let index = [("C", 1), ("s", 2), ("S", 2), ("i", 4), ("I", 4), ("l", 8), ("L", 8)];
    let text = || Box::new(Kind::Text("u", 4));
    all.extend(index.map(|(format, width)| Kind::Dictionary(format, width, text())));
    all.extend([("s", 2), ("l", 8)].map(|(format, width)| Kind::RunEnds(format, width, text())));
    all.extend([Kind::Struct(vec![]), Kind::FixedList(0, text()), Kind::FixedList(3, text())]);
    let deep = (0..20).fold(number, |inner, level| holders(&inner).swap_remove(level % 5));
    let mixed = Kind::Struct(leaves());
    all.extend([deep, Kind::List("+l", 4, Box::new(mixed.clone())), mixed]);
    all
}

/// Returns every type once: all without children, every holder of numbers, every index and run end,
/// and some odd ones.
pub fn types() -> Vec<Kind> {
    let mut all = leaves();
    all.extend(holders(&Kind::Fixed("l", 8)));
    all.extend(odd_ones());
    all
}

/// Returns the matrix: every kind in every window, with everything that can be known of nulls.
pub fn cases() -> impl Iterator<Item = Case> {
    cases_of(kinds())
}

/// Returns these kinds in every window, with everything that can be known of nulls.
pub fn cases_of(kinds: impl IntoIterator<Item = Kind>) -> impl Iterator<Item = Case> {
    kinds.into_iter().map(Arc::new).flat_map(|kind| {
        Window::ALL.into_iter().flat_map(move |window| {
            let kind = kind.clone();
            Nulls::ALL.into_iter().map(move |nulls| Case { kind: kind.clone(), window, nulls })
        })
    })
}

impl Kind {
    /// Makes the plan of an array of this type.
    pub fn plan(&self, window: Window, nulls: Nulls) -> Plan {
        match self {
            // In a function of its own, so that lists of lists of lists fit on the stack of a
            // thread.
            Self::List(format, width, item) => list(format, *width, item, window, nulls),
            _ => self.plan_of_others(window, nulls),
        }
    }

    fn plan_of_others(&self, window: Window, nulls: Nulls) -> Plan {
        let capacity = window.capacity();
        let (validity, null_count) = nulls.of(window);
        let plan = |format: &str, buffers: Vec<Content>, children: Vec<Plan>| Plan {
            format: CString::new(format).unwrap(),
            name: None,
            metadata: None,
            flags: 2,
            length: window.length as i64,
            null_count,
            offset: window.offset as i64,
            buffers,
            children,
            dictionary: None,
        };
        let child = |kind: &Kind, name: &str, length: usize, nulls| {
            let below = kind.plan(window.below(length), nulls);
            Plan { name: Some(CString::new(name).unwrap()), ..below }
        };
        match self {
            Self::Null => {
                let null_count = nulls.without_bitmap(window.length as i64);
                Plan { null_count, ..plan("n", vec![], vec![]) }
            }
            Self::Bits => {
                let data = window.content(bits(capacity, |index| index % 2 == 0));
                plan("b", vec![validity, data], vec![])
            }
            Self::Fixed(format, width) => {
                let data = (0..capacity * width).map(|byte| (byte * 37 + 11) as u8 & 0x7f);
                plan(format, vec![validity, window.content(data.collect())], vec![])
            }
            Self::Text(format, width) => {
                let ends = integers(*width, (0..=capacity as i64).map(|index| index * 2));
                let text = (0..capacity * 2).map(|byte| b'a' + (byte % 26) as u8).collect();
                plan(format, vec![validity, window.content(ends), window.content(text)], vec![])
            }
            Self::Views(format) => plan(format, views(window, validity), vec![]),
            Self::List(..) => self.plan(window, nulls),
            Self::ListView(format, width, item) => {
                let backwards = (0..capacity as i64).rev();
                let starts = window.content(integers(*width, backwards));
                let sizes = window.content(integers(*width, (0..capacity).map(|_| 1)));
                let item = child(item, "item", capacity, nulls);
                plan(format, vec![validity, starts, sizes], vec![item])
            }
            Self::FixedList(size, item) => {
                let item = child(item, "item", capacity * size, nulls);
                plan(&format!("+w:{size}"), vec![validity], vec![item])
            }
            Self::Struct(fields) => {
                let fields = fields.iter().zip(0..);
                let children = fields
                    .map(|(kind, index)| child(kind, &format!("f{index}"), capacity, nulls))
                    .collect();
                plan("+s", vec![validity], children)
            }
            Self::Map(key, value) => {
                let ends = integers(4, (0..=capacity as i64).map(|index| index * 2));
                let below = window.below(capacity * 2);
                let mut entries =
                    Self::Struct(vec![(**key).clone(), (**value).clone()]).plan(below, Nulls::None);
                for (entry, name) in entries.children.iter_mut().zip([c"key", c"value"]) {
                    entry.name = Some(name.into());
                }
                entries.children[0].flags = 0;
                (entries.name, entries.flags) = (Some(c"entries".into()), 0);
                plan("+m", vec![validity, window.content(ends)], vec![entries])
            }
            Self::Sparse(fields) | Self::Dense(fields) => {
                let is_sparse = matches!(self, Self::Sparse(_));
                let count = fields.len();
                let ids: Vec<String> = (0..count).map(|index| (index + 5).to_string()).collect();
                let each = if is_sparse { capacity } else { capacity.div_ceil(count) };
                let children = fields
                    .iter()
                    .zip(0..)
                    .map(|(kind, index)| child(kind, &format!("f{index}"), each, nulls))
                    .collect();
                let which = (0..capacity).map(|index| (index % count + 5) as i64);
                let mut buffers = vec![window.content(integers(1, which))];
                if !is_sparse {
                    let places = (0..capacity).map(|index| (index / count) as i64);
                    buffers.push(window.content(integers(4, places)));
                }
                let format = format!("{}:{}", if is_sparse { "+us" } else { "+ud" }, ids.join(","));
                Plan { null_count: nulls.without_bitmap(0), ..plan(&format, buffers, children) }
            }
            Self::Dictionary(format, width, values) => {
                let keys = (0..capacity).map(|index| (index % 3) as i64);
                let buffers = vec![validity, window.content(integers(*width, keys))];
                let values = values.plan(Window::SLICED, nulls);
                Plan { dictionary: Some(Box::new(values)), ..plan(format, buffers, vec![]) }
            }
            Self::RunEnds(format, width, values) => {
                let runs = capacity.div_ceil(2);
                let below = window.below(runs);
                let end = |index: usize| (index + 1).saturating_sub(below.offset) as i64 * 2;
                let ends = integers(*width, (0..below.capacity()).map(end));
                let mut run_ends = Self::Fixed(format, *width).plan(below, Nulls::None);
                run_ends.buffers[1] = below.content(ends);
                (run_ends.name, run_ends.flags) = (Some(c"run_ends".into()), 0);
                let values = child(values, "values", runs, nulls);
                Plan {
                    null_count: nulls.without_bitmap(0),
                    ..plan("+r", vec![], vec![run_ends, values])
                }
            }
            Self::Extension(storage) => {
                let pairs: [(&[u8], &[u8]); 2] = [
                    (b"ARROW:extension:name", b"test.kind"),
                    (b"ARROW:extension:metadata", b"\0\xff"),
                ];
                Plan { metadata: Some(metadata(&pairs)), ..storage.plan(window, nulls) }
            }
        }
    }
}

/// Makes lists of two items each.
fn list(format: &str, width: usize, item: &Kind, window: Window, nulls: Nulls) -> Plan {
    let capacity = window.capacity();
    let (validity, null_count) = nulls.of(window);
    let ends = integers(width, (0..=capacity as i64).map(|index| index * 2));
    let mut item = item.plan(window.below(capacity * 2), nulls);
    item.name = Some(c"item".into());
    Plan {
        format: CString::new(format).unwrap(),
        name: None,
        metadata: None,
        flags: 2,
        length: window.length as i64,
        null_count,
        offset: window.offset as i64,
        buffers: vec![validity, window.content(ends)],
        children: vec![item],
        dictionary: None,
    }
}

/// Makes views. Short ones hold their bytes; long ones lie in one of two data buffers.
fn views(window: Window, validity: Content) -> Vec<Content> {
    if window.absent || window.capacity() == 0 {
        return vec![validity, window.content(vec![]), Content::Null];
    }
    let (first, second) = (vec![b'x'; 30], vec![b'y'; 25]);
    let view = |index: usize| -> [u8; 16] {
        let mut view = [0; 16];
        if index.is_multiple_of(2) {
            view[..4].copy_from_slice(&3_i32.to_ne_bytes());
            view[4..7].copy_from_slice(b"abc");
        } else {
            let which = index % 4 / 2;
            view[..4].copy_from_slice(&20_i32.to_ne_bytes());
            view[4..8].copy_from_slice(&[[b'x', b'y'][which]; 4]);
            view[8..12].copy_from_slice(&(which as i32).to_ne_bytes());
            view[12..].copy_from_slice(&(index as i32 % 5).to_ne_bytes());
        }
        view
    };
    let views = (0..window.capacity()).flat_map(view).collect();
    let sizes = integers(8, [first.len() as i64, second.len() as i64]);
    vec![
        validity,
        Content::Bytes(views),
        Content::Bytes(first),
        Content::Bytes(second),
        Content::Bytes(sizes),
    ]
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |f: &mut fmt::Formatter<'_>, name: &str, fields: &[Kind]| {
            let fields: Vec<String> = fields.iter().map(Kind::to_string).collect();
            write!(f, "{name}<{}>", fields.join(", "))
        };
        match self {
            Self::Null => f.write_str("n"),
            Self::Bits => f.write_str("b"),
            Self::Fixed(format, _) | Self::Text(format, _) | Self::Views(format) => {
                f.write_str(format)
            }
            Self::List(format, _, item) | Self::ListView(format, _, item) => {
                write!(f, "{format}<{item}>")
            }
            Self::FixedList(size, item) => write!(f, "+w:{size}<{item}>"),
            Self::Struct(fields) => several(f, "+s", fields),
            Self::Map(key, value) => write!(f, "+m<{key}, {value}>"),
            Self::Sparse(fields) => several(f, "+us", fields),
            Self::Dense(fields) => several(f, "+ud", fields),
            Self::Dictionary(format, _, values) => write!(f, "dictionary<{format}, {values}>"),
            Self::RunEnds(format, _, values) => write!(f, "+r<{format}, {values}>"),
            Self::Extension(storage) => write!(f, "extension<{storage}>"),
        }
    }
}
