//! [`Dictionaries`]: the values that the columns of a stream point into, as far as they have come.
//!
//! A message brings the values of a dictionary, or values to append. They are kept as parts, and
//! put together when the next batch is read: however many parts came since the batch before, all
//! values are copied once for them. The new whole replaces the parts, except where the values point
//! into other dictionaries. Then each part keeps the dictionaries of its time, and a whole that is
//! put together again would repeat them.
//!
//! All parts and wholes that are kept count as bytes, each by a [`Charge`], as long as it is there.
//! A part keeps the charges of the dictionaries of its time, so what an outer dictionary keeps of
//! an inner one counts also after the inner one was replaced. What must stay true: before a message
//! is unpacked, and before parts are put together, it is checked that the bytes of the result are
//! left; and a reader of a stream without dictionaries does nothing for all this.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::{Array, DeviceId, Error, Result};

use crate::problem::{limited, malformed, within};
use crate::shape::Shape;

/// All dictionaries of a stream.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries {
    /// The dictionaries by their numbers, and in the order of these numbers: where several
    /// dictionaries are wrong, each run ends with an error about the first one.
    known: BTreeMap<i64, Dictionary>,
    /// How many elements came in messages of dictionaries so far.
    came: u64,
    /// How many bytes are kept.
    kept: Kept,
    /// How many bytes may be kept.
    most: u64,
}

/// The bound for the elements of a dictionary that was put together, with the dictionaries below
/// it, is `FREE_ELEMENTS` and `ELEMENTS_FOR_EACH` for each element that came. Without a bound a few
/// messages could ask for any amount of memory: where the values of a dictionary point into others,
/// and all of them grow, each part keeps the dictionaries of its time, and their number multiplies
/// with each level.
const FREE_ELEMENTS: u64 = 1 << 20;
const ELEMENTS_FOR_EACH: u64 = 64;

/// How many bytes an array counts as, in addition to its buffers.
const ARRAY_BYTES: u64 = 256;

/// The number of bytes that are kept: the sum of all [`Charge`]s.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<AtomicUsize>);

/// Bytes that count as long as this is there.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: usize,
    kept: Kept,
    _below: Below,
}

/// What else is kept as long as a charge: the dictionaries that the values point into.
pub(crate) type Below = Vec<Arc<Charge>>;

impl Kept {
    fn charge(&self, bytes: u64, below: Below) -> Arc<Charge> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX >> 1);
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Charge { bytes, kept: self.clone(), _below: below })
    }

    /// Returns how many bytes are left of `most`.
    fn left(&self, most: u64) -> u64 {
        // Twice as many can be counted.
        let most = most.min((usize::MAX >> 1) as u64);
        most.saturating_sub(self.0.load(Ordering::Relaxed) as u64)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.kept.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The values of a dictionary that a reader keeps.
#[derive(Debug)]
struct Part {
    values: Array,
    charge: Arc<Charge>,
}

#[derive(Debug)]
struct Dictionary {
    values: Shape,
    /// The parts that came: the values, and then those that were appended. Where the values point
    /// into no other dictionary, the first part is what was put together before. There are none
    /// while all that is needed of them is in the whole.
    parts: Vec<Part>,
    /// All parts as one array: the only one, or what they were put together to.
    whole: Option<Part>,
    /// Whether a column that is asked for points into this dictionary.
    is_needed: bool,
    /// The dictionaries that the values point into.
    below: Vec<i64>,
}

impl Dictionaries {
    /// Returns the dictionaries of all columns, still without values. Several columns may share a
    /// dictionary. At most `most` bytes will be kept.
    pub(crate) fn of<'a>(
        all: &'a [Shape],
        needed: impl IntoIterator<Item = &'a Shape>,
        most: u64,
    ) -> Result<Self> {
        let (mut found, mut of_needed) = (Vec::new(), Vec::new());
        all.iter().for_each(|column| column.dictionaries(&mut found));
        needed.into_iter().for_each(|column| column.dictionaries(&mut of_needed));
        let of_needed: HashSet<i64> = of_needed.into_iter().map(|(id, _)| id).collect();
        let mut known: BTreeMap<i64, Dictionary> = BTreeMap::new();
        for (id, values) in found {
            let is_needed = of_needed.contains(&id);
            let new = || Dictionary::new(values.clone(), is_needed);
            let first = known.entry(id).or_insert_with(new);
            if first.values.data_type() != values.data_type() {
                let [one, other] = first.values.data_type().told_apart(values.data_type());
                let message =
                    format!("dictionary {id} is of {one} in one column and of {other} in another");
                return Err(malformed(message));
            }
        }
        Ok(Self { known, came: 0, kept: Kept::default(), most })
    }

    /// Returns the values of a dictionary, if they came and were put together.
    pub(crate) fn get(&self, id: i64) -> Option<&Array> {
        self.known.get(&id)?.whole.as_ref().map(|whole| &whole.values)
    }

    /// Returns a dictionary that does not lie on this device, and where it lies: one that the
    /// values of dictionary `outer` point into, or, without `outer`, any.
    pub(crate) fn elsewhere(
        &self,
        device: DeviceId,
        outer: Option<i64>,
    ) -> Option<(i64, DeviceId)> {
        let outer = outer.map(|id| self.known.get(&id).map_or(&[][..], |outer| &outer.below));
        let is_meant = |id: &i64| outer.is_none_or(|below| below.contains(id));
        let mut places =
            self.known.iter().filter(|(id, _)| is_meant(id)).filter_map(|(id, known)| {
                let place = known.whole.as_ref()?.values.device();
                Some((*id, place))
            });
        places.find(|(_, place)| !place.is_same_device(device))
    }

    /// Puts together the parts of each dictionary. Has to run before a batch is read.
    pub(crate) fn put_together(&mut self) -> Result<()> {
        if self.known.is_empty() {
            return Ok(());
        }
        let limits = self.limits();
        self.known.iter_mut().try_for_each(|(id, known)| known.put_together(*id, &limits))
    }

    /// Puts together the dictionaries that the values of this dictionary point into, and returns
    /// what keeps them. Has to run before more of these values are read.
    pub(crate) fn put_together_below(&mut self, id: i64) -> Result<Below> {
        let below = self.known.get(&id).map(|known| known.below.clone()).unwrap_or_default();
        let mut charges = Vec::with_capacity(below.len());
        if below.is_empty() {
            return Ok(charges);
        }
        let limits = self.limits();
        for id in below {
            if let Some(known) = self.known.get_mut(&id) {
                known.put_together(id, &limits)?;
                charges.extend(known.whole.as_ref().map(|whole| whole.charge.clone()));
            }
        }
        Ok(charges)
    }

    fn limits(&self) -> Limits {
        let elements = self.came.saturating_mul(ELEMENTS_FOR_EACH).saturating_add(FREE_ELEMENTS);
        Limits { elements, kept: self.kept.clone(), most: self.most }
    }

    /// Makes room for values that keep `bytes`, before they are read: values that they replace are
    /// given up. Returns how many more bytes may be kept.
    pub(crate) fn admit(&mut self, id: i64, bytes: u64, is_delta: bool) -> Result<u64> {
        let Some(known) = self.known.get_mut(&id).filter(|known| known.is_needed) else {
            return Ok(0);
        };
        if !is_delta {
            known.parts.clear();
            known.whole = None;
        }
        let (bytes, left) = (bytes.saturating_add(known.overhead()), self.kept.left(self.most));
        left.checked_sub(bytes).ok_or_else(|| no_room(id, bytes, left))
    }

    /// Returns the shape of a dictionary's values, `None` where no column that is asked for points
    /// into the dictionary.
    pub(crate) fn wanted(&self, id: i64) -> Result<Option<&Shape>> {
        let Some(known) = self.known.get(&id) else {
            return Err(malformed(format!("no column has dictionary {id}")));
        };
        Ok(known.is_needed.then_some(&known.values))
    }

    /// Takes the values of a dictionary, or values to append, which were admitted and keep `bytes`.
    /// Arrays that were made of the old values keep the old values.
    pub(crate) fn put(
        &mut self,
        id: i64,
        values: Array,
        is_delta: bool,
        (bytes, below): (u64, Below),
    ) {
        if let Some(known) = self.known.get_mut(&id) {
            self.came = self.came.saturating_add(elements_of(&values, false));
            let charge = self.kept.charge(bytes.saturating_add(known.overhead()), below);
            known.put(Part { values, charge }, is_delta);
        }
    }
}

/// The bounds for dictionaries that are put together.
struct Limits {
    elements: u64,
    kept: Kept,
    most: u64,
}

#[cold]
fn no_room(id: i64, bytes: u64, left: u64) -> Error {
    let message = format!(
        "dictionary {id}: values that keep {bytes} bytes, and all dictionaries may have {left} bytes more"
    );
    limited(message)
}

/// Counts the bytes of an array's buffers on all levels.
fn bytes_of(array: &Array) -> u64 {
    let buffers = (0..array.buffer_count()).map(|index| array.extent(index).at_least());
    let children = (0..array.child_count()).filter_map(|index| array.child(index).ok());
    let below = children.chain(array.dictionary()).map(|below| bytes_of(&below));
    buffers.chain(below).fold(0, u64::saturating_add)
}

/// Counts the elements of an array on all levels, with or without those of dictionaries.
fn elements_of(array: &Array, with_dictionaries: bool) -> u64 {
    let children = (0..array.child_count()).filter_map(|index| array.child(index).ok());
    let dictionary = array.dictionary().filter(|_| with_dictionaries);
    let below = children.chain(dictionary).map(|below| elements_of(&below, with_dictionaries));
    below.fold(array.len() as u64, u64::saturating_add)
}

impl Dictionary {
    fn new(values: Shape, is_needed: bool) -> Self {
        let mut below = Vec::new();
        values.dictionaries(&mut below);
        let below = below.into_iter().map(|(id, _)| id).collect();
        Self { values, parts: Vec::new(), whole: None, is_needed, below }
    }

    /// How many bytes the arrays of a message count as, in addition to their buffers.
    fn overhead(&self) -> u64 {
        ARRAY_BYTES.saturating_mul(self.values.node_count() as u64)
    }

    fn put(&mut self, part: Part, is_delta: bool) {
        match self.whole.take() {
            _ if !is_delta => self.parts.clear(),
            // The only part, or parts that were given up for it. A whole that is put together again
            // would repeat the dictionaries below it.
            Some(before) if self.parts.is_empty() => self.parts.push(before),
            _ => {}
        }
        if self.parts.is_empty() {
            self.whole = Some(part);
        } else {
            self.parts.push(part);
        }
    }

    /// Makes one array of all parts, unless no part came since the last time.
    fn put_together(&mut self, id: i64, limits: &Limits) -> Result<()> {
        if self.whole.is_some() || self.parts.is_empty() {
            return Ok(());
        }
        self.whole = Some(self.together(id, limits)?);
        if self.below.is_empty() {
            self.parts.clear();
        }
        Ok(())
    }

    /// Makes one array of several parts.
    fn together(&self, id: i64, limits: &Limits) -> Result<Part> {
        let named = |error| within(error, &format!("dictionary {id}"));
        let mut room = limits.kept.left(limits.most);
        if self.below.is_empty() {
            // They are given up for the whole, but for one that an outer dictionary keeps.
            let given_up = self.parts.iter().filter(|part| Arc::strong_count(&part.charge) == 1);
            let bytes = given_up.map(|part| part.charge.bytes as u64);
            room = bytes.fold(room, u64::saturating_add);
        }
        let overhead = self.overhead();
        let most = room.checked_sub(overhead).ok_or_else(|| no_room(id, overhead, room))?;
        let parts: Vec<Array> = self.parts.iter().map(|part| part.values.clone()).collect();
        let values = Array::concat_at_most(&parts, most).map_err(named)?;
        if elements_of(&values, true) > limits.elements {
            let message = "dictionaries that grow have more values together than came";
            return Err(named(limited(message)));
        }
        let bytes = bytes_of(&values).saturating_add(overhead);
        Ok(Part { values, charge: limits.kept.charge(bytes, Below::new()) })
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::{DataType, IndexType};

    use super::*;

    fn texts(text: &str, count: usize) -> Array {
        Array::from_texts(DataType::Utf8, vec![Some(text); count]).unwrap()
    }

    /// A dictionary of words, 0, and a dictionary of lists of them, 1.
    fn nested(most: u64) -> (Dictionaries, impl Fn(&Dictionaries) -> Array) {
        let words = DataType::dictionary(IndexType::Int8, DataType::Utf8);
        let lists = DataType::list(words.clone());
        let columns = [DataType::dictionary(IndexType::Int8, lists).into()];
        let shapes = Shape::of_columns(&columns).unwrap();
        let list = move |dictionaries: &Dictionaries| {
            let inner = dictionaries.get(0).unwrap().clone();
            let keys = Array::from_keys(words.clone(), [Some(0)], inner).unwrap();
            Array::from_lists(DataType::list(words.clone()), [Some(1)], keys).unwrap()
        };
        (Dictionaries::of(&shapes, &shapes, most).unwrap(), list)
    }

    /// Replaces the words, and adds a list of them or replaces the lists.
    fn message_pair(
        dictionaries: &mut Dictionaries,
        list: &impl Fn(&Dictionaries) -> Array,
        is_delta: bool,
    ) -> Result<()> {
        dictionaries.admit(0, 1000, false)?;
        dictionaries.put(0, texts(&"x".repeat(1000), 1), false, (1000, Below::new()));
        let below = dictionaries.put_together_below(1)?;
        dictionaries.admit(1, 10, is_delta)?;
        dictionaries.put(1, list(dictionaries), is_delta, (10, below));
        Ok(())
    }

    #[test]
    fn words_that_lists_keep_count_until_the_lists_are_replaced() {
        // Words and a list count as 1000 and 10 bytes and as three arrays.
        let pair = 1010 + 3 * 256;
        let (mut dictionaries, list) = nested(3 * pair);
        for _ in 0..3 {
            message_pair(&mut dictionaries, &list, true).unwrap();
        }
        let error = message_pair(&mut dictionaries, &list, true).unwrap_err();
        assert_eq!(error.kind(), arrow_device::ErrorKind::LimitExceeded, "{error}");
        let (mut dictionaries, list) = nested(2 * pair);
        for _ in 0..10 {
            message_pair(&mut dictionaries, &list, false).unwrap();
        }
        assert_eq!(dictionaries.kept.left(2 * pair), pair);
    }

    #[test]
    fn values_without_bytes_count_too() {
        let columns = [DataType::dictionary(IndexType::Int8, DataType::Null).into()];
        let shapes = Shape::of_columns(&columns).unwrap();
        let mut dictionaries = Dictionaries::of(&shapes, &shapes, 10 * ARRAY_BYTES).unwrap();
        for _ in 0..10 {
            dictionaries.admit(0, 0, true).unwrap();
            dictionaries.put(0, Array::nulls(1).unwrap(), true, (0, Below::new()));
        }
        dictionaries.admit(0, 0, true).unwrap_err();
        dictionaries.put_together().unwrap();
        assert_eq!(dictionaries.get(0).unwrap().len(), 10);
        assert_eq!(dictionaries.admit(0, 0, true).unwrap(), 8 * ARRAY_BYTES);
    }
}
