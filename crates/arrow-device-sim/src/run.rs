//! Runs submitted work: when somebody waits for it, as late as the order allows, in the order that
//! the seed chooses.
//!
//! A wait has goals: for some queues, how many pieces of work they are to have done.
//! [`EngineState::targets`] adds the work of other queues that this work waits for. Then one piece
//! of work after the other runs, each the first of its queue: the seed chooses among the queues
//! whose first work does not wait. Nothing else runs, so a result that nobody waited for is not
//! there. An eager device has all work as its goal, at the end of each call that submits some. What
//! must stay true: a wait names work that was submitted before it, so some queue can always go on.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::{Engine, EngineState};
use crate::kernel_work::{KernelMemory, KernelWork};
use crate::queue::{Piece, Side, Step, Work};
use crate::report::{Mistake, Report};
use crate::span::Span;
use crate::track::Access;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Reached,
    OutOfTime,
    /// The thread that would have to run the work is running a kernel, and that kernel waits.
    InsideKernel,
}

/// The bytes that reading from no memory returns.
const GARBAGE: u8 = 0xdb;

impl Engine {
    /// Runs the work that these queues need to reach their goals, and no other work.
    pub(crate) fn run<'a>(
        &'a self,
        mut state: MutexGuard<'a, EngineState>,
        goals: &[(usize, u64)],
        limit: Option<Duration>,
    ) -> (MutexGuard<'a, EngineState>, Outcome) {
        let targets = state.targets(goals);
        if let Some(limit) = limit {
            state.waited = state.waited.saturating_add(limit);
        }
        loop {
            if goals.iter().all(|(queue, work)| state.queues[*queue].done >= *work) {
                return (state, Outcome::Reached);
            }
            match state.running {
                Some(thread) if thread == std::thread::current().id() => {
                    return (state, Outcome::InsideKernel);
                }
                Some(_) => {
                    state.waiting += 1;
                    state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                    continue;
                }
                None => {}
            }
            if limit.is_some() && state.work_time > Duration::ZERO {
                match state.waited.checked_sub(state.work_time) {
                    Some(left) => state.waited = left,
                    None => return (state, Outcome::OutOfTime),
                }
            }
            // A wait names work that was submitted before it, so some queue can always go on.
            let Some(queue) = state.next(&targets) else { return (state, Outcome::Reached) };
            state = self.step(state, queue);
        }
    }

    /// Runs all submitted work.
    pub(crate) fn run_all<'a>(
        &'a self,
        state: MutexGuard<'a, EngineState>,
    ) -> MutexGuard<'a, EngineState> {
        let submitted = |queue: &usize| (*queue, state.queues[*queue].submitted);
        let goals: Vec<(usize, u64)> = state.busy.iter().map(submitted).collect();
        self.run(state, &goals, None).0
    }

    /// Runs the first work of a queue.
    fn step<'a>(
        &'a self,
        mut state: MutexGuard<'a, EngineState>,
        queue: usize,
    ) -> MutexGuard<'a, EngineState> {
        let state_of = &mut state.queues[queue];
        let fails = state_of.fails_by(state_of.done + 1);
        let mut work = state_of.pending.pop_front();
        work.iter().for_each(|work| state.host_sides.remove(work));
        if fails {
            state.discarded.extend(work.take());
        }
        match work {
            Some(Work::Kernel(kernel)) => state = self.run_kernel(state, kernel),
            Some(Work::Copy { pieces, access }) => {
                let written = pieces.iter().filter_map(|piece| piece.to.host_range(piece.len));
                let written = written.collect();
                state.run_copy(pieces, &access);
                state.expect_written(queue, written);
            }
            Some(Work::Fill { at: Some(part), byte }) => state.run_fill(part, byte),
            Some(Work::Free { allocation }) => {
                state.allocations[allocation].block = None;
                state.give_back(allocation);
            }
            Some(Work::Fill { at: None, .. } | Work::Wait { .. }) | None => {}
        }
        let state_of = &mut state.queues[queue];
        // If the device was lost while its kernel ran, all its work counts as done.
        state_of.done = state_of.submitted.min(state_of.done + 1);
        let work = state_of.done;
        if state_of.is_idle() {
            state.busy.remove(&queue);
        }
        if let Some(log) = &mut state.log {
            log.push(Step { queue: queue + 1, work });
        }
        if state.waiting > 0 {
            self.turn.notify_all();
        }
        state
    }

    /// Runs a kernel on copies of its bytes, while the lock is released.
    fn run_kernel<'a>(
        &'a self,
        mut state: MutexGuard<'a, EngineState>,
        kernel: KernelWork,
    ) -> MutexGuard<'a, EngineState> {
        let KernelWork { access, reads, writes, run } = kernel;
        let bytes = |parts: &[(Option<Span>, u64)]| {
            parts.iter().map(|(part, len)| state.bytes(*part, *len)).collect()
        };
        let mut memory = KernelMemory { inputs: bytes(&reads), outputs: bytes(&writes) };
        state.running = Some(std::thread::current().id());
        drop(state);
        let result = catch_unwind(AssertUnwindSafe(|| run(&mut memory)));
        let mut state = self.lock();
        state.running = None;
        if let Err(payload) = result {
            let message = panic_message(payload);
            let here = state.action(&access, !writes.is_empty());
            state.report(Report::new(Mistake::KernelPanicked).second(here).note(message));
        }
        // A device that was lost meanwhile writes nothing any more.
        let is_lost = state.devices[state.queues[access.queue].device].lost;
        for ((part, _), bytes) in writes.into_iter().zip(&memory.outputs).filter(|_| !is_lost) {
            if let Some(Span { allocation, offset, .. }) = part
                && let Some(block) = &mut state.allocations[allocation].block
            {
                block.write(offset, bytes);
            }
        }
        state
    }
}

impl EngineState {
    /// Returns how much work of each queue has to run for these goals, including the work that they
    /// wait for.
    fn targets(&self, goals: &[(usize, u64)]) -> BTreeMap<usize, u64> {
        let mut targets: BTreeMap<usize, u64> = BTreeMap::new();
        let mut open: Vec<(usize, u64)> = goals.to_vec();
        while let Some((queue, work)) = open.pop() {
            let state = &self.queues[queue];
            let seen = targets.get(&queue).copied().unwrap_or_default().max(state.done);
            if work <= seen {
                continue;
            }
            targets.insert(queue, work);
            let (from, to) = ((seen - state.done) as usize, (work - state.done) as usize);
            open.extend(state.pending.iter().take(to).skip(from).filter_map(|work| match work {
                Work::Wait { queue, work } => Some((*queue, *work)),
                _ => None,
            }));
        }
        targets
    }

    /// Returns a queue whose first work may run and has to.
    fn next(&mut self, targets: &BTreeMap<usize, u64>) -> Option<usize> {
        let can_run = |(queue, target): &(&usize, &u64)| {
            let state = &self.queues[**queue];
            state.done < **target
                && match state.pending.front() {
                    Some(Work::Wait { queue, work }) => self.queues[*queue].done >= *work,
                    _ => true,
                }
        };
        let ready: Vec<usize> = targets.iter().filter(can_run).map(|(queue, _)| *queue).collect();
        match ready.as_slice() {
            [only] => Some(*only),
            several => several.get(self.random.below(several.len())).copied(),
        }
    }

    fn bytes(&self, part: Option<Span>, len: u64) -> Vec<u8> {
        let block = part.and_then(|part| self.allocations[part.allocation].block.as_ref());
        match (block, part) {
            (Some(block), Some(part)) => block.read(part.offset, len),
            _ => vec![GARBAGE; len as usize],
        }
    }

    fn run_fill(&mut self, part: Span, byte: u8) {
        if let Some(block) = &mut self.allocations[part.allocation].block {
            block.fill(part.offset, part.len, byte);
        }
    }

    fn run_copy(&mut self, mut pieces: Vec<Piece>, access: &Access) {
        self.random.shuffle(&mut pieces);
        for piece in pieces {
            self.run_piece(piece, access);
        }
    }

    fn run_piece(&mut self, piece: Piece, access: &Access) {
        let Piece { from, to, len, watched, host_bytes, target_bytes } = piece;
        if let (Side::Device(part), Side::Device(_)) = (from, to)
            && watched
            && self.has_changed(part, &host_bytes)
        {
            let here = self.action(access, false);
            self.report(Report::new(Mistake::HostSourceChanged).second(here));
        }
        if let Side::Device(part) = to
            && watched
            && self.has_changed(part, &target_bytes)
        {
            let here = self.action(access, true);
            self.report(Report::new(Mistake::HostDestinationChanged).second(here));
        }
        match (from, to) {
            (Side::Staged, Side::Device(part)) => {
                if let Some(block) = &mut self.allocations[part.allocation].block {
                    block.write(part.offset, &host_bytes);
                }
            }
            (Side::Staged, Side::Host(address)) => {
                let from = host_bytes.as_ptr();
                // SAFETY: the submitter promised that the destination stays writable until the
                // queue has passed this; the source is this piece's own, as long as the piece, and
                // overlaps nothing.
                unsafe { std::ptr::copy_nonoverlapping(from, address.0, host_bytes.len()) };
            }
            (Side::Host(address), Side::Device(part)) => {
                // SAFETY: the submitter promised that the source stays readable until the queue has
                // passed this.
                let now = unsafe { std::slice::from_raw_parts(address.0, len as usize) };
                if watched && *now != *host_bytes {
                    let here = self.action(access, true);
                    self.report(Report::new(Mistake::HostSourceChanged).second(here));
                }
                if let Some(block) = &mut self.allocations[part.allocation].block {
                    // SAFETY: UNS-21, which the submitter promised: the source stays readable until
                    // the queue has passed this.
                    unsafe { block.load(part.offset, address.0, len) };
                }
            }
            (from, Side::Host(address)) => {
                // SAFETY: the submitter promised that the destination stays writable until the
                // queue has passed this; it was written when the copy was submitted, so it is
                // initialised.
                let now = unsafe { std::slice::from_raw_parts(address.0, len as usize) };
                if watched && *now != *host_bytes {
                    let here = self.action(access, false);
                    self.report(Report::new(Mistake::HostDestinationChanged).second(here));
                }
                if let Side::Device(part) = from
                    && let Some(block) = &self.allocations[part.allocation].block
                {
                    // SAFETY: UNS-21, which the submitter promised: the destination stays writable
                    // until the queue has passed this.
                    unsafe { block.store(part.offset, address.0, len) };
                }
            }
            (Side::Device(from), Side::Device(to)) if from.allocation == to.allocation => {
                if let Some(block) = &mut self.allocations[to.allocation].block {
                    block.copy(to.offset, None, from.offset, len);
                }
            }
            (Side::Device(from), Side::Device(to)) => {
                if let Some((source, target)) =
                    self.allocations.pair(from.allocation, to.allocation)
                    && let Some(block) = &mut target.block
                {
                    match &source.block {
                        Some(source) => block.copy(to.offset, Some(source), from.offset, len),
                        None => block.fill(to.offset, len, GARBAGE),
                    }
                }
            }
            (Side::Nowhere, Side::Device(part)) => self.run_fill(part, GARBAGE),
            (_, Side::Nowhere | Side::Staged) => {}
        }
    }

    /// Whether memory that the host shares differs from what it held when the copy was submitted.
    /// `false` where its contents were not noted.
    fn has_changed(&self, part: Span, noted: &[u8]) -> bool {
        let block = self.allocations[part.allocation].block.as_ref();
        !noted.is_empty() && block.is_some_and(|block| *block.read(part.offset, part.len) != *noted)
    }
}

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<&str>() {
        Ok(text) => return (*text).into(),
        Err(payload) => payload,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            // Dropping the payload may run anybody's code and may panic as well.
            std::mem::forget(payload);
            "without a message".into()
        }
    }
}
