//! [`ReadyWhen`]: the events after which the data of a tree may be used.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::Event;
use crate::device::driver::Runtime;

/// When data may be used.
pub(crate) enum ReadyWhen {
    Now,
    After(Pending),
    /// The data is ready after all of these. Columns with different events were put together, or
    /// there is one event of a kind that arrays on the device do not show to consumers.
    AfterAll(Box<[Pending]>),
}

/// Something to wait for.
#[derive(Clone)]
pub(crate) enum Pending {
    Event(Event),
    /// The `sync_event` of an array that somebody else made and that the tree keeps alive.
    Foreign(NonNull<c_void>),
}

impl Pending {
    pub(crate) fn event(&self) -> Option<&Event> {
        match self {
            Self::Event(event) => Some(event),
            Self::Foreign(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn into_event(self) -> Option<Event> {
        match self {
            Self::Event(event) => Some(event),
            Self::Foreign(_) => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Event(one), Self::Event(other)) => one.is_same(other),
            (Self::Foreign(one), Self::Foreign(other)) => one == other,
            _ => false,
        }
    }

    /// A key that is equal for two values that stand for one event, and for no others.
    fn key(&self) -> PendingKey {
        match self {
            Self::Event(event) => {
                let Runtime { name, instance } = event.runtime();
                (event.raw().as_ptr().addr(), Some((name, instance)))
            }
            Self::Foreign(event) => (event.addr().get(), None),
        }
    }
}

/// The handle of an event, and its runtime where that is known.
type PendingKey = (usize, Option<(&'static str, usize)>);

impl ReadyWhen {
    /// What the `sync_event` says of an array that somebody else made and that the tree keeps
    /// alive.
    #[inline(always)]
    pub(crate) fn foreign(sync_event: *mut c_void) -> Self {
        match NonNull::new(sync_event) {
            None => Self::Now,
            Some(event) => Self::After(Pending::Foreign(event)),
        }
    }

    /// This readiness, with the event kept back from consumers unless `may_show` allows it.
    pub(crate) fn shown_on(self, may_show: impl Fn(&Event) -> bool) -> Self {
        match self {
            Self::After(Pending::Event(event)) if !may_show(&event) => {
                Self::AfterAll(Box::new([Pending::Event(event)]))
            }
            ready => ready,
        }
    }

    pub(crate) fn pending(&self) -> &[Pending] {
        match self {
            Self::Now => &[],
            Self::After(one) => std::slice::from_ref(one),
            Self::AfterAll(all) => all,
        }
    }

    /// The readiness of data that is ready after all of these.
    #[inline]
    pub(crate) fn join(all: impl IntoIterator<Item = Pending>) -> Self {
        let mut all = all.into_iter();
        let Some(first) = all.next() else { return Self::Now };
        match all.find(|other| !other.is_same(&first)) {
            None => Self::After(first),
            Some(other) => Self::after_several(first, other, &mut all),
        }
    }

    #[cold]
    #[inline(never)]
    fn after_several(
        first: Pending,
        second: Pending,
        more: &mut dyn Iterator<Item = Pending>,
    ) -> Self {
        let all = [first, second].into_iter().chain(more);
        Self::AfterAll(distinct(all, Pending::is_same, Pending::key).into())
    }
}

/// Each distinct event once, with one of the arrays that wait for it.
pub(super) fn distinct_pending<'all, T>(
    all: impl IntoIterator<Item = (T, &'all Pending)>,
) -> Vec<(T, &'all Pending)> {
    distinct(all, |one, other| one.1.is_same(other.1), |one| one.1.key())
}

/// Up to so many values are compared with each other. Beyond that, a sorted set of keys finds the
/// duplicates.
const FEW: usize = 8;

/// Drops duplicates and keeps the order. Values with equal keys are duplicates.
fn distinct<T, K: Ord>(
    all: impl IntoIterator<Item = T>,
    is_same: impl Fn(&T, &T) -> bool,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    // Filled once there are more than `FEW` values.
    let mut known = BTreeSet::new();
    for one in all {
        let is_new = if distinct.len() <= FEW {
            !distinct.iter().rev().any(|known| is_same(known, &one))
        } else if distinct.last().is_some_and(|last| is_same(last, &one)) {
            false
        } else {
            if known.is_empty() {
                known.extend(distinct.iter().map(&key));
            }
            known.insert(key(&one))
        };
        if is_new {
            distinct.push(one);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    /// A key that counts how often it is compared.
    struct CountedKey<'a>(u32, &'a Cell<usize>);

    impl Ord for CountedKey<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for CountedKey<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Eq for CountedKey<'_> {}

    impl PartialEq for CountedKey<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    /// The distinct ones among these, how often two were compared, and how often a key was made.
    fn counted(all: impl IntoIterator<Item = u32>) -> (Vec<u32>, usize, usize) {
        let (comparisons, keys) = (Cell::new(0), Cell::new(0));
        let is_same = |one: &u32, other: &u32| {
            comparisons.set(comparisons.get() + 1);
            one == other
        };
        let key = |number: &u32| {
            keys.set(keys.get() + 1);
            CountedKey(*number, &comparisons)
        };
        let found = distinct(all, is_same, key);
        (found, comparisons.get(), keys.get())
    }

    // Requirement: SAF-25
    #[test]
    fn events_are_joined_in_less_than_the_square_of_their_number() {
        let count: u32 = if cfg!(miri) { 256 } else { 8192 };
        let most = (count * count.ilog2() * 4) as usize;
        let rounds = (0..2 * count).map(|number| number % count);
        let (found, comparisons, keys) = counted(rounds);
        assert!(found.iter().copied().eq(0..count), "each once, in their order");
        assert!(comparisons < most && keys < most, "{comparisons} comparisons, {keys} keys");
    }

    #[test]
    fn one_event_of_many_columns_is_compared_once_for_each() {
        let (found, comparisons, keys) = counted(std::iter::repeat_n(7, 1000));
        assert_eq!((found, comparisons, keys), (vec![7], 999, 0));
    }

    #[test]
    fn what_several_columns_wait_for_is_joined() {
        let foreign = |number: usize| {
            let event = std::ptr::without_provenance_mut(number);
            Pending::Foreign(NonNull::new(event).expect("not 0"))
        };
        let ready = |numbers: &[usize]| ReadyWhen::join(numbers.iter().copied().map(foreign));
        let numbers = |ready: &ReadyWhen| -> Vec<usize> {
            ready.pending().iter().map(|pending| pending.key().0).collect()
        };
        assert!(matches!(ready(&[]), ReadyWhen::Now));
        assert!(matches!(ready(&[3]), ReadyWhen::After(_)));
        assert!(matches!(ready(&[3, 3, 3]), ReadyWhen::After(_)));
        assert_eq!(numbers(&ready(&[3, 1, 3, 2, 1])), [3, 1, 2]);
        let many: Vec<usize> = (1..100).rev().collect();
        assert_eq!(numbers(&ready(&[&*many, &*many].concat())), many);
    }
}
