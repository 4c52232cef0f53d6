//! The producer's side.

use super::Bell;
use crate::protocol::Rules;
use crate::protocol::producer::{Credit, Next};
use crate::threads::{Arc, spawn};

type Wishes<R> = Arc<Credit<R, &'static str>>;

fn wishes<R: Rules>() -> Wishes<R> {
    Arc::new(Credit::new())
}

fn request<R: Rules>(wishes: &Wishes<R>, count: i64) {
    wishes.request(count, || "refused");
}

/// 10. A request comes while the producer falls asleep for want of one.
pub(crate) fn a_request_comes_while_falling_asleep<R: Rules>() {
    let wishes = wishes::<R>();
    let (bell, waker) = Bell::new();
    let asking = spawn({
        let wishes = wishes.clone();
        move || request(&wishes, 1)
    });
    let seen = wishes.look(&waker);
    asking.join().unwrap();
    let has_credit = seen == Next::Go { credits: 1, asked: true };
    assert!(has_credit || bell.rang(), "there is credit, and nobody is told");
}

/// 11. Two threads ask at once, and one task is sent meanwhile.
pub(crate) fn two_requests_at_once<R: Rules>() {
    let wishes = wishes::<R>();
    request(&wishes, 1);
    let asking = spawn({
        let wishes = wishes.clone();
        move || request(&wishes, 2)
    });
    request(&wishes, 3);
    wishes.spend();
    asking.join().unwrap();
    let (_, waker) = Bell::new();
    assert_eq!(wishes.look(&waker), Next::Go { credits: 5, asked: true });
}

/// 12. A request that cannot be comes after `cancel`: it is not an error any more.
pub(crate) fn a_request_comes_after_cancel<R: Rules>() {
    let wishes = wishes::<R>();
    let cancelling = spawn({
        let wishes = wishes.clone();
        move || {
            wishes.cancel();
            request(&wishes, -1);
            wishes.cancel();
        }
    });
    let (bell, waker) = Bell::new();
    let first = wishes.look(&waker);
    cancelling.join().unwrap();
    assert!(first == Next::Stop || bell.rang(), "cancelled, and nobody is told");
    assert_eq!(wishes.look(&waker), Next::Stop, "a successful cancel causes no error");
}

/// 13. A consumer that does not know better asks after the end.
pub(crate) fn a_request_comes_after_the_end<R: Rules>() {
    let wishes = wishes::<R>();
    let closing = spawn({
        let wishes = wishes.clone();
        move || wishes.close()
    });
    request(&wishes, 1);
    closing.join().unwrap();
    let (_, waker) = Bell::new();
    let before = wishes.look(&waker);
    request(&wishes, 7);
    assert_eq!(wishes.look(&waker), before, "nothing changes after the end");
    assert!(!wishes.task_failed("too late"), "and nothing is reported");
}
