//! The values that an array is expected to hold, and where their bytes lie for a queue.

use arrow_device::driver::Spot;
use arrow_device::{Array, DataType, Field, NodeView, Result, Schema};

use crate::Verdict;
use crate::oracle::{self, Value};

/// The values of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Integers of 64 bits.
    Numbers(Vec<i64>),
    /// A struct of two arrays.
    Pair(Box<[Values; 2]>),
    /// Lists of integers.
    Lists(Vec<Vec<i64>>),
}

impl Values {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Pair(both) => both[0].len(),
            Self::Lists(lists) => lists.len(),
        }
    }

    /// Returns the integers, if these values are integers.
    pub(super) fn numbers(&self) -> Option<&[i64]> {
        match self {
            Self::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// Returns the schema of an array with such values.
    pub(super) fn schema(&self) -> Schema {
        Schema::new(self.data_type()).expect("three small types")
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Numbers(_) => DataType::Int64,
            Self::Lists(_) => DataType::list(DataType::Int64),
            Self::Pair(both) => DataType::struct_(
                [("a", &both[0]), ("b", &both[1])]
                    .map(|(name, one)| Field::new(name, one.data_type(), true)),
            ),
        }
    }

    pub(super) fn slice(&self, offset: usize, length: usize) -> Self {
        let range = offset..offset + length;
        match self {
            Self::Numbers(numbers) => Self::Numbers(numbers[range].to_vec()),
            Self::Pair(both) => {
                Self::Pair(Box::new(both.each_ref().map(|one| one.slice(offset, length))))
            }
            Self::Lists(lists) => Self::Lists(lists[range].to_vec()),
        }
    }

    /// Returns the values of a child, cut to the part that the parent uses, as the library does.
    pub(super) fn child(&self, number: usize) -> Option<Self> {
        match self {
            Self::Pair(both) => Some(both[number % 2].clone()),
            _ => None,
        }
    }

    /// Compares an array that the host reads with these values, by naive reading. Complains about a
    /// difference.
    pub(super) fn compare(&self, host: &Array) -> Verdict {
        let read = oracle::values(&oracle::plan_of(host)?)?;
        let expected: Vec<Value> = (0..self.len()).map(|index| self.value(index)).collect();
        if read == expected {
            return Ok(());
        }
        let first = read.iter().zip(&expected).position(|(one, other)| one != other);
        Err(format!("{} elements of {}, different at {first:?}", read.len(), expected.len()))
    }

    fn value(&self, index: usize) -> Value {
        let number = |number: &i64| Value::Bytes(number.to_ne_bytes().to_vec());
        match self {
            Self::Numbers(numbers) => number(&numbers[index]),
            Self::Pair(both) => Value::Values(both.iter().map(|one| one.value(index)).collect()),
            Self::Lists(lists) => Value::Values(lists[index].iter().map(number).collect()),
        }
    }

    /// Returns what a kernel reads of a view: places, with the bytes that are expected there, where
    /// they are known.
    pub(super) fn reads(&self, node: NodeView<'_>) -> Result<Vec<ExpectedRead>> {
        let mut reads = Vec::new();
        let first = node.offset() as u64;
        self.collect(&node, first, &mut reads)?;
        Ok(reads)
    }

    fn collect(
        &self,
        node: &NodeView<'_>,
        first: u64,
        reads: &mut Vec<ExpectedRead>,
    ) -> Result<()> {
        let mut read = |first: u64, width: u64, count: u64, expected| {
            let place = node.buffer(1).location();
            if count > 0 && !place.is_null() {
                let Spot { base, offset } = place.spot();
                let spot = Spot { base, offset: offset + first * width };
                reads.push(ExpectedRead { spot, len: count * width, expected });
            }
        };
        match self {
            Self::Numbers(numbers) => {
                read(first, 8, numbers.len() as u64, Some(numbers.clone()));
            }
            // The offsets cannot be checked by themselves. They lead to elements, which a kernel
            // would read only after them.
            Self::Lists(lists) => read(first, 4, lists.len() as u64 + 1, None),
            Self::Pair(both) => {
                for (number, one) in both.iter().enumerate() {
                    let child = node.child(number)?;
                    one.collect(&child, child.offset() as u64 + first, reads)?;
                }
            }
        }
        Ok(())
    }
}

/// Bytes that a kernel reads, and the integers that are expected there.
pub(super) struct ExpectedRead {
    pub(super) spot: Spot,
    pub(super) len: u64,
    pub(super) expected: Option<Vec<i64>>,
}
