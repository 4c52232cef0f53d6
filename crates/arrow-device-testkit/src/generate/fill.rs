//! Fills arrays of a type: every buffer, from the leaves up.
//!
//! Children are filled first, and their lengths limit the length of their parent. Some types can
//! have no elements at all, for example a union without fields.

use super::{Budget, Choices, Noise};
use crate::plan::{Content, Plan, Window, integers};
use crate::shape::{Shape, is_text};

const NULLABLE: i64 = 2;
const KEYS_SORTED: i64 = 4;

const WORDS: &[&str] = &[
    "",
    "a",
    "tea",
    "ø",
    "twelve bytes",
    "\0",
    "日本",
    "𝄞",
    "thirteen byte",
    "größer als zwölf Bytes",
];

/// Returns an array of this type with `length` elements, or with fewer where the type does not
/// allow as many.
pub fn fill(schema: &Plan, choices: &mut Choices<'_>, length: usize, budget: Budget) -> Plan {
    Filler { elements: budget.elements, choices }.node(schema, length)
}

struct Filler<'a, 'b> {
    /// How many more elements there may be in all arrays.
    elements: usize,
    choices: &'a mut Choices<'b>,
}

/// The facts about an array once its children are filled.
struct Slots {
    window: Window,
    is_valid: Vec<bool>,
    validity: Content,
    null_count: i64,
    /// Whether places that are no elements may hold anything, and places of null elements nearly
    /// anything.
    is_wild: bool,
    noise: Noise,
}

impl Slots {
    fn is_inside(&self, slot: usize) -> bool {
        (self.window.offset..self.window.offset + self.window.length).contains(&slot)
    }

    /// Whether a place may hold anything.
    fn is_free(&self, slot: usize) -> bool {
        self.is_wild && (!self.is_inside(slot) || !self.is_valid[slot])
    }

    /// Whether a place may hold anything even if null elements have to be right.
    fn is_outside(&self, slot: usize) -> bool {
        self.is_wild && !self.is_inside(slot)
    }

    fn slots(&self) -> std::ops::Range<usize> {
        0..self.window.capacity()
    }
}

impl Filler<'_, '_> {
    fn node(&mut self, schema: &Plan, wanted: usize) -> Plan {
        self.elements = self.elements.saturating_sub(wanted);
        let offset = if self.choices.once_in(3) { 1 + self.choices.below(9) } else { 0 };
        let tail = if self.choices.once_in(4) { 1 + self.choices.below(3) } else { 0 };
        let window = Window { offset, length: wanted, tail, absent: false };
        let is_nullable = schema.flags & NULLABLE != 0;
        if let Some(values) = &schema.dictionary {
            return self.dictionary(schema, values, window);
        }
        let shape = Shape::of(schema.format.as_bytes());
        let (children, most) = self.children(schema, &shape, window);
        let mut slots = self.slots(window, most, is_nullable);
        let mut children = children;
        let mut buffers = match &shape {
            Shape::Null | Shape::RunEnds => vec![],
            Shape::Bits => vec![slots.noise.bytes(slots.window.capacity().div_ceil(8))],
            Shape::Fixed(width) => vec![slots.noise.bytes(slots.window.capacity() * width)],
            Shape::Bytes(width) => {
                self.bytes(&mut slots, *width, is_text(schema.format.as_bytes()))
            }
            Shape::Views => return self.views(schema, slots),
            Shape::List(width) => {
                let most = if schema.flags & KEYS_SORTED != 0 { 1 } else { 4 };
                vec![lists(&mut slots, *width, children[0].length as usize, most)]
            }
            Shape::ListView(width) => list_views(&mut slots, *width, children[0].length as usize),
            Shape::FixedList(_) | Shape::Struct => vec![],
            Shape::Sparse(ids) => vec![type_ids(&mut slots, ids)],
            Shape::Dense(ids) => dense(&mut slots, ids, &children),
        };
        if shape == Shape::RunEnds {
            run_ends(&mut slots, &mut children);
        }
        let window = slots.window;
        let mut contents: Vec<Content> =
            buffers.drain(..).map(|bytes| window.content(bytes)).collect();
        if shape.has_validity() {
            contents.insert(0, slots.validity);
        }
        let null_count = match shape {
            Shape::Null if slots.null_count == 0 => window.length as i64,
            _ if shape.has_validity() => slots.null_count,
            _ => slots.null_count.min(0),
        };
        if let (Shape::Bytes(_), Some(Content::Bytes(data))) = (&shape, contents.last())
            && data.is_empty()
            && self.choices.once_in(2)
        {
            *contents.last_mut().unwrap() = Content::Null;
        }
        array(schema, window, null_count, contents, children)
    }

    /// Returns the children of an array with this window, and the most elements that the array can
    /// have, its offset included.
    fn children(&mut self, schema: &Plan, shape: &Shape, window: Window) -> (Vec<Plan>, usize) {
        let end = window.offset + window.length;
        let extra = self.choices.below(5).saturating_sub(2);
        let wanted = match shape {
            Shape::List(_) | Shape::ListView(_) => self.choices.below(2 * window.length + 3),
            Shape::FixedList(size) => end * size + extra,
            Shape::Struct | Shape::Sparse(_) => end + extra,
            Shape::Dense(_) => self.choices.below(window.length + 2),
            Shape::RunEnds => window.length.min(1) + self.choices.below(window.length + 1),
            _ => 0,
        };
        let mut children: Vec<Plan> = Vec::new();
        for (index, child) in schema.children.iter().enumerate() {
            let is_again = index > 0 && schema.children[index - 1] == *child;
            let child = match children.last() {
                Some(last) if is_again && self.choices.once_in(2) => last.clone(),
                // The run ends are made below, when their number is known.
                _ if index == 0 && *shape == Shape::RunEnds => child.clone(),
                _ => self.node(child, wanted.min(self.elements)),
            };
            children.push(child);
        }
        let lengths = || children.iter().map(|child| child.length as usize);
        let most = match shape {
            Shape::FixedList(size) => lengths().next().and_then(|length| length.checked_div(*size)),
            Shape::Struct => lengths().min(),
            Shape::Sparse(_) => Some(lengths().min().unwrap_or(0)),
            Shape::Dense(_) if lengths().all(|length| length == 0) => Some(0),
            Shape::RunEnds if children[1].length == 0 => Some(0),
            _ => None,
        };
        (children, most.unwrap_or(usize::MAX))
    }

    /// Cuts the window to the elements that there can be, and chooses which are null.
    fn slots(&mut self, window: Window, most: usize, is_nullable: bool) -> Slots {
        let offset = window.offset.min(most);
        let length = window.length.min(most - offset);
        let absent = length == 0 && self.choices.once_in(2);
        let window = Window { offset, length, absent, ..window };
        let is_wild = self.choices.once_in(2);
        let mut noise = self.choices.noise();
        let knowledge = self.choices.below(6);
        let knowledge = if is_nullable { knowledge } else { [0, 3, 4][knowledge % 3] };
        let is_valid: Vec<bool> = (0..window.capacity())
            .map(|_| match knowledge {
                1 | 2 => noise.below(3) != 2,
                5 => false,
                _ => true,
            })
            .collect();
        let nulls =
            is_valid.iter().skip(offset).take(length).filter(|is_valid| !**is_valid).count();
        let mut slots =
            Slots { window, is_valid, validity: Content::Null, null_count: 0, is_wild, noise };
        if ![0, 4].contains(&knowledge) {
            slots.validity = window.content(slots.bitmap());
        }
        slots.null_count = if [2, 4].contains(&knowledge) { -1 } else { nulls as i64 };
        slots
    }

    fn dictionary(&mut self, schema: &Plan, values: &Plan, window: Window) -> Plan {
        let Shape::Fixed(width) = Shape::of(schema.format.as_bytes()) else {
            unreachable!("keys are integers")
        };
        let wanted = self.choices.below(7).min(self.elements);
        let values = self.node(values, wanted);
        let count = values.length as usize;
        let is_nullable = schema.flags & NULLABLE != 0;
        let most = if count == 0 && !is_nullable { 0 } else { usize::MAX };
        let mut slots = self.slots(window, most, is_nullable);
        if count == 0 && slots.window.length > 0 {
            // Without values, all keys are null.
            slots.is_valid.fill(false);
            slots.validity = Content::Bytes(slots.bitmap());
            let is_counted = slots.null_count >= 0;
            slots.null_count = if is_counted { slots.window.length as i64 } else { -1 };
        }
        let mut keys = Vec::new();
        for slot in slots.slots() {
            let number = slots.noise.number();
            keys.push(
                if slots.is_free(slot) { number } else { number % count.max(1) as u64 } as i64
            );
        }
        let keys = slots.window.content(integers(width, keys));
        let contents = vec![slots.validity, keys];
        let made = array(schema, slots.window, slots.null_count, contents, vec![]);
        Plan { dictionary: Some(Box::new(values)), ..made }
    }

    /// Makes offsets and bytes. The first element need not begin at the first byte.
    fn bytes(&mut self, slots: &mut Slots, width: usize, is_text: bool) -> Vec<Vec<u8>> {
        let filler = if slots.is_wild { 0xff } else { b'.' };
        let mut data = vec![filler; self.choices.below(4)];
        let mut offsets = vec![data.len() as i64];
        for slot in slots.slots() {
            if slots.is_free(slot) {
                data.extend(vec![filler; slots.noise.below(3)]);
            } else {
                data.extend(word(&mut slots.noise, is_text));
            }
            offsets.push(data.len() as i64);
        }
        data.extend(vec![filler; self.choices.below(4)]);
        hide_outside(slots, &mut offsets);
        vec![integers(width, offsets), data]
    }

    /// Makes views. Short ones hold their bytes. Long ones lie in one of the data buffers or in the
    /// bytes of another view.
    fn views(&mut self, schema: &Plan, mut slots: Slots) -> Plan {
        let text = is_text(schema.format.as_bytes());
        let mut data: Vec<Vec<u8>> = vec![vec![]; self.choices.below(4)];
        let mut views: Vec<[u8; 16]> = Vec::new();
        for slot in slots.slots() {
            if slots.is_free(slot) {
                views.push([slots.noise.number() as u8; 16]);
                continue;
            }
            let word = word(&mut slots.noise, text);
            let again = views.iter().find(|view| view[0] > 12 && view[1..4] == [0; 3]);
            let view = match again {
                Some(again) if !slots.is_wild && slots.noise.below(4) == 3 => *again,
                _ => view(&mut slots.noise, &word, &mut data),
            };
            views.push(view);
        }
        if slots.window.absent {
            data.clear();
        }
        let sizes = integers(8, data.iter().map(|bytes| bytes.len() as i64));
        let mut contents = vec![slots.validity, slots.window.content(views.concat())];
        for bytes in data {
            let is_absent = bytes.is_empty() && self.choices.once_in(2);
            contents.push(if is_absent { Content::Null } else { Content::Bytes(bytes) });
        }
        contents.push(if sizes.is_empty() { Content::Null } else { Content::Bytes(sizes) });
        array(schema, slots.window, slots.null_count, contents, vec![])
    }
}

impl Slots {
    fn bitmap(&mut self) -> Vec<u8> {
        let mut bytes = self.noise.bytes(self.window.capacity().div_ceil(8));
        for (slot, is_valid) in self.is_valid.iter().enumerate() {
            let bit = 1_u8 << (slot % 8);
            bytes[slot / 8] = bytes[slot / 8] & !bit | if *is_valid { bit } else { 0 };
        }
        bytes
    }
}

fn array(
    schema: &Plan,
    window: Window,
    null_count: i64,
    buffers: Vec<Content>,
    children: Vec<Plan>,
) -> Plan {
    Plan {
        length: window.length as i64,
        null_count,
        offset: window.offset as i64,
        buffers,
        children,
        ..schema.clone()
    }
}

fn word(noise: &mut Noise, is_text: bool) -> Vec<u8> {
    if is_text {
        return WORDS[noise.below(WORDS.len())].as_bytes().to_vec();
    }
    let len = noise.below(20);
    noise.bytes(len)
}

fn view(noise: &mut Noise, word: &[u8], data: &mut [Vec<u8>]) -> [u8; 16] {
    let mut view = [0; 16];
    let word = if data.is_empty() && word.len() > 12 { &b"short"[..] } else { word };
    view[..4].copy_from_slice(&(word.len() as i32).to_ne_bytes());
    if word.len() <= 12 {
        view[4..4 + word.len()].copy_from_slice(word);
        return view;
    }
    let number = noise.below(data.len());
    let holder = &mut data[number];
    holder.extend(vec![b'-'; noise.below(3)]);
    view[4..8].copy_from_slice(&word[..4]);
    view[8..12].copy_from_slice(&(number as i32).to_ne_bytes());
    view[12..].copy_from_slice(&(holder.len() as i32).to_ne_bytes());
    holder.extend(word);
    view
}

/// Overwrites offsets that no element has with anything.
fn hide_outside(slots: &mut Slots, offsets: &mut [i64]) {
    let end = slots.window.offset + slots.window.length;
    for (index, offset) in offsets.iter_mut().enumerate() {
        if slots.is_wild && !(slots.window.offset..=end).contains(&index) {
            *offset = slots.noise.number() as i64;
        }
    }
}

fn lists(slots: &mut Slots, width: usize, child: usize, most: usize) -> Vec<u8> {
    let mut end = slots.noise.below(3).min(child);
    let mut offsets = vec![end as i64];
    for _ in slots.slots() {
        end = (end + slots.noise.below(most + 1)).min(child);
        offsets.push(end as i64);
    }
    hide_outside(slots, &mut offsets);
    integers(width, offsets)
}

fn list_views(slots: &mut Slots, width: usize, child: usize) -> Vec<Vec<u8>> {
    let (mut starts, mut sizes) = (Vec::new(), Vec::new());
    for slot in slots.slots() {
        let start = slots.noise.below(child + 1);
        let size = slots.noise.below((child - start).min(3) + 1);
        let is_outside = slots.is_outside(slot);
        starts.push(if is_outside { slots.noise.number() as i64 } else { start as i64 });
        sizes.push(if is_outside { slots.noise.number() as i64 } else { size as i64 });
    }
    vec![integers(width, starts), integers(width, sizes)]
}

fn type_ids(slots: &mut Slots, ids: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    for slot in slots.slots() {
        let is_free = ids.is_empty() || slots.is_outside(slot);
        types.push(if is_free { 0xff } else { ids[slots.noise.below(ids.len())] });
    }
    types
}

/// Makes type ids, and offsets that never go back within a child.
fn dense(slots: &mut Slots, ids: &[u8], children: &[Plan]) -> Vec<Vec<u8>> {
    let lengths: Vec<i64> = children.iter().map(|child| child.length).collect();
    let inhabited: Vec<usize> = (0..ids.len()).filter(|child| lengths[*child] > 0).collect();
    let mut next: Vec<i64> = vec![0; ids.len()];
    let (mut types, mut offsets) = (Vec::new(), Vec::new());
    for slot in slots.slots() {
        if !slots.is_inside(slot) || inhabited.is_empty() {
            types.push(if slots.is_wild { 0x80 } else { ids.first().copied().unwrap_or(0) });
            offsets.push(if slots.is_wild { -1 } else { 0 });
            continue;
        }
        let child = inhabited[slots.noise.below(inhabited.len())];
        types.push(ids[child]);
        offsets.push(next[child]);
        next[child] = (next[child] + slots.noise.below(3) as i64).min(lengths[child] - 1);
    }
    vec![types, integers(4, offsets)]
}

/// Makes the first child: at most as many run ends as there are values, the last one behind the end
/// of the window.
fn run_ends(slots: &mut Slots, children: &mut [Plan]) {
    let Slots { window, noise, .. } = slots;
    let values = children[1].length as usize;
    let least = window.length.min(1).min(values);
    let runs = values.saturating_sub(noise.below(3)).max(least);
    let end = (window.offset + window.length) as i64;
    let mut ends: Vec<i64> = Vec::new();
    for _ in 0..runs {
        let last = ends.last().copied().unwrap_or(0);
        ends.push(last + 1 + noise.below(4) as i64);
    }
    if let Some(last) = ends.last_mut() {
        *last = end.max(*last);
    }
    let Shape::Fixed(width) = Shape::of(children[0].format.as_bytes()) else {
        unreachable!("run ends are integers")
    };
    let offset = noise.below(3);
    let before = (0..offset).map(|_| -1);
    let bytes = integers(width, before.chain(ends).chain([-5]));
    let is_absent = runs == 0 && window.absent;
    let data = if is_absent { Content::Null } else { Content::Bytes(bytes) };
    let below = Window { offset, length: runs, tail: 1, absent: is_absent };
    children[0] = array(&children[0], below, 0, vec![Content::Null, data], vec![]);
}
