//! [`Dictionaries`]: the values that the columns of a stream point into, as far as they have come.
//!
//! A message brings the values of a dictionary, or values to append. They are kept as parts, and
//! put together when the next batch is read: however many parts came since the batch before, all
//! values are copied once for them. The new whole replaces the parts, except where the values point
//! into other dictionaries. Then each part keeps the dictionaries of its time, and a whole that is
//! put together again would repeat them.

use std::collections::{HashMap, HashSet};

use arrow_device::{Array, Result};

use crate::problem::{limited, malformed, within};
use crate::shape::Shape;

/// All dictionaries of a stream.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries {
    known: HashMap<i64, Dictionary>,
    /// How many elements came in messages of dictionaries so far.
    came: u64,
}

/// The bound for the elements of a dictionary that was put together, with the dictionaries below
/// it, is `FREE_ELEMENTS` and `ELEMENTS_FOR_EACH` for each element that came. Without a bound a few
/// messages could ask for any amount of memory: where the values of a dictionary point into others,
/// and all of them grow, each part keeps the dictionaries of its time, and their number multiplies
/// with each level.
const FREE_ELEMENTS: u64 = 1 << 20;
const ELEMENTS_FOR_EACH: u64 = 64;

#[derive(Debug)]
struct Dictionary {
    values: Shape,
    /// The parts that came: the values, and then those that were appended. Where the values point
    /// into no other dictionary, the first part is what was put together before.
    parts: Vec<Array>,
    /// All parts as one array, once they were put together.
    whole: Option<Array>,
    /// Whether a column that is asked for points into this dictionary.
    is_needed: bool,
    /// The dictionaries that the values point into.
    below: Vec<i64>,
}

impl Dictionaries {
    /// Returns the dictionaries of all columns, still without values. Several columns may share a
    /// dictionary.
    pub(crate) fn of<'a>(
        all: &'a [Shape],
        needed: impl IntoIterator<Item = &'a Shape>,
    ) -> Result<Self> {
        let (mut found, mut of_needed) = (Vec::new(), Vec::new());
        all.iter().for_each(|column| column.dictionaries(&mut found));
        needed.into_iter().for_each(|column| column.dictionaries(&mut of_needed));
        let of_needed: HashSet<i64> = of_needed.into_iter().map(|(id, _)| id).collect();
        let mut known: HashMap<i64, Dictionary> = HashMap::with_capacity(found.len());
        for (id, values) in found {
            let is_needed = of_needed.contains(&id);
            let new = || Dictionary::new(values.clone(), is_needed);
            let first = known.entry(id).or_insert_with(new);
            if first.values.data_type() != values.data_type() {
                let message = format!(
                    "dictionary {id} is of {} in one column and of {} in another",
                    first.values.data_type(),
                    values.data_type()
                );
                return Err(malformed(message));
            }
        }
        Ok(Self { known, came: 0 })
    }

    /// Returns the values of a dictionary, if they came and were put together.
    pub(crate) fn get(&self, id: i64) -> Option<&Array> {
        self.known.get(&id)?.whole.as_ref()
    }

    /// Puts together the parts of each dictionary. Has to run before a batch is read.
    pub(crate) fn put_together(&mut self) -> Result<()> {
        let most = self.most_elements();
        self.known.iter_mut().try_for_each(|(id, known)| known.put_together(*id, most))
    }

    /// Puts together the dictionaries that the values of this dictionary point into. Has to run
    /// before more of these values are read.
    pub(crate) fn put_together_below(&mut self, id: i64) -> Result<()> {
        let most = self.most_elements();
        let below = self.known.get(&id).map(|known| known.below.clone());
        for id in below.unwrap_or_default() {
            if let Some(known) = self.known.get_mut(&id) {
                known.put_together(id, most)?;
            }
        }
        Ok(())
    }

    fn most_elements(&self) -> u64 {
        self.came.saturating_mul(ELEMENTS_FOR_EACH).saturating_add(FREE_ELEMENTS)
    }

    /// Returns the shape of a dictionary's values, `None` where no column that is asked for points
    /// into the dictionary.
    pub(crate) fn wanted(&self, id: i64) -> Result<Option<&Shape>> {
        let Some(known) = self.known.get(&id) else {
            return Err(malformed(format!("no column has dictionary {id}")));
        };
        Ok(known.is_needed.then_some(&known.values))
    }

    /// Takes the values of a dictionary, or values to append. Arrays that were made of the old
    /// values keep the old values.
    pub(crate) fn put(&mut self, id: i64, values: Array, is_delta: bool) {
        if let Some(known) = self.known.get_mut(&id) {
            self.came = self.came.saturating_add(elements_of(&values, false));
            known.put(values, is_delta);
        }
    }
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

    fn put(&mut self, values: Array, is_delta: bool) {
        match self.whole.take() {
            _ if !is_delta => self.parts.clear(),
            // A whole that is put together again would repeat the dictionaries below it.
            Some(before) if self.below.is_empty() => self.parts = vec![before],
            _ => {}
        }
        self.parts.push(values);
    }

    /// Makes one array of all parts, unless no part came since the last time.
    fn put_together(&mut self, id: i64, most: u64) -> Result<()> {
        if self.whole.is_some() {
            return Ok(());
        }
        let named = |error| within(error, &format!("dictionary {id}"));
        self.whole = match self.parts.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            parts => {
                let whole = Array::concat(parts).map_err(named)?;
                if elements_of(&whole, true) > most {
                    let message = "dictionaries that grow have more values together than came";
                    return Err(named(limited(message)));
                }
                Some(whole)
            }
        };
        Ok(())
    }
}
