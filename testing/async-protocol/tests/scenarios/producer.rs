//! The producer's side.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::Bell;
use crate::locks::{Arc, Mutex};
use crate::protocol::Rules;
use crate::protocol::producer::{Credit, Need, Next};
use crate::threads::spawn;

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
    let seen = wishes.look(&waker, Need::Credit);
    asking.join().unwrap();
    assert!(seen == Next::Go || bell.rang(), "there is credit, and nobody is told");
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
    let (_, waker) = Bell::new();
    assert_eq!(wishes.look(&waker, Need::Credit), Next::Go);
    asking.join().unwrap();
    for _ in 0..5 {
        assert_eq!(wishes.look(&waker, Need::Credit), Next::Go, "a credit is lost");
    }
    assert_eq!(wishes.look(&waker, Need::Credit), Next::Wait);
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
    let first = wishes.look(&waker, Need::Waking);
    cancelling.join().unwrap();
    assert!(first == Next::Stop || bell.rang(), "cancelled, and nobody is told");
    assert_eq!(
        wishes.look(&waker, Need::Waking),
        Next::Stop,
        "a successful cancel causes no error"
    );
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
    // What came before the end is spent.
    let _ = wishes.look(&waker, Need::Credit);
    request(&wishes, 7);
    assert_eq!(wishes.look(&waker, Need::Credit), Next::Wait, "nothing changes after the end");
    assert!(!wishes.task_failed("too late"), "and nothing is reported");
}

/// A driver that is polled where it is woken. Its consumer's thread is in `request` while `inside`.
struct PollsAtOnce<R> {
    wishes: Wishes<R>,
    inside: AtomicBool,
    sent: AtomicUsize,
    /// Wakers that another thread is to wake.
    elsewhere: Mutex<Vec<Waker>>,
}

impl<R: Rules> Wake for PollsAtOnce<R> {
    fn wake(self: std::sync::Arc<Self>) {
        self.poll();
    }
}

impl<R: Rules> PollsAtOnce<R> {
    fn poll(self: &std::sync::Arc<Self>) {
        let waker = Waker::from(self.clone());
        if self.inside.load(Ordering::SeqCst) {
            let elsewhere = |waker| {
                self.elsewhere.lock().unwrap().push(waker);
                true
            };
            self.wishes.poll_again(&waker, elsewhere);
            return;
        }
        while self.wishes.look(&waker, Need::Credit) == Next::Go {
            self.sent.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// 14. A request wakes a driver that is polled right there. Another thread wakes it once more.
///
/// A second request is under way meanwhile.
pub(crate) fn a_request_wakes_somebody_who_polls_at_once<R: Rules>() {
    let wishes = wishes::<R>();
    let driver = std::sync::Arc::new(PollsAtOnce {
        wishes: wishes.clone(),
        inside: AtomicBool::new(false),
        sent: AtomicUsize::new(0),
        elsewhere: Mutex::new(Vec::new()),
    });
    driver.poll();
    driver.inside.store(true, Ordering::SeqCst);
    request(&wishes, 1);
    let wakers = std::mem::take(&mut *driver.elsewhere.lock().unwrap());
    driver.inside.store(false, Ordering::SeqCst);
    let waking = spawn(move || wakers.into_iter().for_each(Waker::wake));
    request(&wishes, 1);
    waking.join().unwrap();
    let sent = driver.sent.load(Ordering::SeqCst);
    // The driver goes with the waker that is kept.
    wishes.close();
    assert_eq!(sent, 2, "there is credit, and nobody is told");
}
