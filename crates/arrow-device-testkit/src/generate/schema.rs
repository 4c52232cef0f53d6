//! Makes types: a plan whose arrays are still empty.

use std::ffi::CString;

use super::{Budget, Choices};
use crate::plan::{Plan, metadata};

const NULLABLE: i64 = 2;
const ORDERED: i64 = 1;
const KEYS_SORTED: i64 = 4;

/// Formats without parameters and without children. The first is the simplest.
const LEAVES: &[&str] = &[
    "i",
    "u",
    "b",
    "c",
    "C",
    "s",
    "S",
    "I",
    "l",
    "L",
    "e",
    "f",
    "g",
    "U",
    "z",
    "Z",
    "vu",
    "vz",
    "tdD",
    "tdm",
    "tts",
    "ttm",
    "ttu",
    "ttn",
    "tss:",
    "tsm:+05:30",
    "tsu:UTC",
    "tsn:America/Argentina/Buenos_Aires",
    "tDs",
    "tDm",
    "tDu",
    "tDn",
    "tiM",
    "tiD",
    "tin",
    "n",
];

const INDICES: &[&str] = &["c", "C", "s", "S", "i", "I", "l", "L"];
const NAMES: &[Option<&str>] =
    &[Some("a"), Some("b"), None, Some(""), Some("größe 日本"), Some("a.b\n`")];

/// The demands that a place in a type makes on the type that is put there.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// Whether an element may be null, by its own bitmap or by the element that it refers to.
    may_be_null: bool,
}

impl Place {
    /// Returns a place whose elements are not elements of this one.
    fn below(self) -> Self {
        Self { depth: self.depth.saturating_sub(1), may_be_null: true }
    }

    /// Returns a place whose elements stand for elements of this one.
    fn through(self) -> Self {
        Self { may_be_null: self.may_be_null, ..self.below() }
    }
}

/// Makes a type with its name, flags and metadata and everything below it. The array has no
/// elements.
pub fn schema(choices: &mut Choices<'_>, budget: Budget) -> Plan {
    let mut nodes = budget.nodes.saturating_sub(1);
    node(choices, &mut nodes, Place { depth: budget.depth, may_be_null: true })
}

fn node(choices: &mut Choices<'_>, nodes: &mut usize, place: Place) -> Plan {
    let is_leaf = place.depth == 0 || *nodes == 0;
    // About as many leaves as other types, so that trees come to an end.
    let kind = if is_leaf { choices.below(2) } else { choices.below(18) };
    let mut made = match kind {
        8 => list(choices, nodes, place, &["+l", "+L"]),
        9 => list(choices, nodes, place, &["+vl", "+vL"]),
        10 => list(choices, nodes, place, &["+w:2", "+w:1", "+w:3", "+w:0"]),
        11 | 12 => several(choices, nodes, place.below(), "+s"),
        13 => map(choices, nodes, place),
        14 => union(choices, nodes, place, "+us"),
        15 => union(choices, nodes, place, "+ud"),
        16 => dictionary(choices, nodes, place),
        17 => run_ends(choices, nodes, place),
        _ => leaf(choices, place),
    };
    made.flags |= if place.may_be_null && !choices.once_in(4) { NULLABLE } else { 0 };
    made.name = choices.pick(NAMES).map(text);
    made.metadata = some_metadata(choices);
    made
}

/// Makes a node, and counts it against the nodes that are left.
fn below(choices: &mut Choices<'_>, nodes: &mut usize, place: Place) -> Plan {
    *nodes = nodes.saturating_sub(1);
    node(choices, nodes, place)
}

fn leaf(choices: &mut Choices<'_>, place: Place) -> Plan {
    let count = LEAVES.len() - usize::from(!place.may_be_null);
    match choices.below(count + 3) {
        number if number < count => plan(LEAVES[number]),
        number if number == count => plan(&format!("w:{}", choices.below(18))),
        number => {
            let (bits, digits) = choices.pick(&[(128, 38), (32, 9), (64, 18), (256, 76)]);
            let precision = 1 + choices.below(digits);
            let scale = choices.below(40) as i64 - 10;
            let bits =
                if bits == 128 && number > count + 1 { String::new() } else { format!(",{bits}") };
            plan(&format!("d:{precision},{scale}{bits}"))
        }
    }
}

fn list(choices: &mut Choices<'_>, nodes: &mut usize, place: Place, formats: &[&str]) -> Plan {
    let format = choices.pick(formats);
    let item = below(choices, nodes, place.below());
    Plan { children: vec![item], ..plan(format) }
}

/// Makes up to four fields. A field may repeat the one before, in which case the arrays may be
/// equal too.
fn fields(choices: &mut Choices<'_>, nodes: &mut usize, place: Place) -> Vec<Plan> {
    let mut fields: Vec<Plan> = Vec::new();
    for _ in 0..(choices.below(5) + 1) % 5 {
        let field = match fields.last() {
            Some(last) if choices.once_in(4) => last.clone(),
            _ => below(choices, nodes, place),
        };
        fields.push(field);
    }
    fields
}

fn several(choices: &mut Choices<'_>, nodes: &mut usize, place: Place, format: &str) -> Plan {
    Plan { children: fields(choices, nodes, place), ..plan(format) }
}

fn map(choices: &mut Choices<'_>, nodes: &mut usize, place: Place) -> Plan {
    let key = below(choices, nodes, Place { may_be_null: false, ..place.below().below() });
    let value = below(choices, nodes, place.below().below());
    let [key_name, value_name, name] =
        choices.pick(&[["key", "value", "entries"], ["keys", "values", "key_value"]]).map(text);
    let key = Plan { name: Some(key_name), ..key };
    let value = Plan { name: Some(value_name), ..value };
    let entries = Plan { name: Some(name), children: vec![key, value], ..plan("+s") };
    let flags = if choices.once_in(3) { KEYS_SORTED } else { 0 };
    Plan { flags, children: vec![entries], ..plan("+m") }
}

fn union(choices: &mut Choices<'_>, nodes: &mut usize, place: Place, format: &str) -> Plan {
    let children = fields(choices, nodes, place.through());
    let (first, step) = (choices.below(128), 1 + 2 * choices.below(20));
    let ids: Vec<String> =
        (0..children.len()).map(|index| ((first + index * step) % 128).to_string()).collect();
    Plan { children, ..plan(&format!("{format}:{}", ids.join(","))) }
}

fn dictionary(choices: &mut Choices<'_>, nodes: &mut usize, place: Place) -> Plan {
    let index = choices.pick(INDICES);
    let values = below(choices, nodes, place.through());
    let flags = if choices.once_in(3) { ORDERED } else { 0 };
    Plan { flags, dictionary: Some(Box::new(values)), ..plan(index) }
}

fn run_ends(choices: &mut Choices<'_>, nodes: &mut usize, place: Place) -> Plan {
    let ends = Plan { name: Some(text("run_ends")), ..plan(choices.pick(&["i", "s", "l"])) };
    let values = Plan { name: Some(text("values")), ..below(choices, nodes, place.through()) };
    Plan { children: vec![ends, values], ..plan("+r") }
}

fn some_metadata(choices: &mut Choices<'_>) -> Option<Vec<u8>> {
    let extension: [(&[u8], &[u8]); 2] =
        [(b"ARROW:extension:name", b"test.kind"), (b"ARROW:extension:metadata", b"\0{\xff}")];
    Some(match choices.below(12) {
        8 => metadata(&extension),
        9 => metadata(&[(b"", b""), (b"key", b"value"), (b"key", b"again")]),
        10 => metadata(&[extension[0], (b"k", b"v")]),
        11 => metadata(&[]),
        _ => return None,
    })
}

fn plan(format: &str) -> Plan {
    Plan {
        format: text(format),
        name: None,
        metadata: None,
        flags: 0,
        length: 0,
        null_count: 0,
        offset: 0,
        buffers: vec![],
        children: vec![],
        dictionary: None,
    }
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no zero byte")
}
