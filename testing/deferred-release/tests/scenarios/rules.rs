//! All rules, and all but one.

use super::device::{ModelEnd, Thing};
use crate::timeline::TimelineKinds;

macro_rules! rules {
    ($($name:ident $(without $rule:ident)?;)*) => {$(
        pub(super) struct $name;

        impl TimelineKinds for $name {
            type End = ModelEnd;
            type Entry = Thing;
            type About = ();
            $(const $rule: bool = false;)?
        }
    )*};
}

rules! {
    All;
    RecordsFirst without POINT_BEFORE_RECORD;
    LastNotedIsKept without HIGHEST_POINT_IS_KEPT;
    IdleFirst without POINTS_BEFORE_IDLE;
    CountsOneByOne without USES_ARE_COUNTED_FIRST;
    TakesWaitersOff without WAITERS_STAY;
    AsksUnderLock without ASKS_WITHOUT_LOCK;
    LeavesBlindly without LOOKS_BEFORE_LEAVING;
    UnknownPasses without UNKNOWN_HAS_NOT_PASSED;
}
