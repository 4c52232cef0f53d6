//! [`ReadyWhen`]: the events after which the data of a tree may be used.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::Event;

/// When data may be used.
pub(crate) enum ReadyWhen {
    Now,
    After(Pending),
    /// Columns with different events were put together; or there is one event that is not of the
    /// kind that arrays on the device show to others.
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
}

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

    /// The same, where an event only goes out with the array if this says that it may.
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

    /// Both.
    pub(crate) fn join(all: impl IntoIterator<Item = Pending>) -> Self {
        let mut distinct: Vec<Pending> = Vec::new();
        for pending in all {
            if !distinct.iter().any(|known| known.is_same(&pending)) {
                distinct.push(pending);
            }
        }
        match (distinct.pop(), distinct.is_empty()) {
            (None, _) => Self::Now,
            (Some(only), true) => Self::After(only),
            (Some(last), false) => {
                distinct.push(last);
                Self::AfterAll(distinct.into())
            }
        }
    }
}
