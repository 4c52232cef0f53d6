//! A copy that nobody waits for. One `async` function has the steps of a copy that waits: plan,
//! allocate, move the bytes, build the result. Where the copy that waits would wait for a device,
//! the function is pending, and each poll asks about one event.
//!
//! What must stay true:
//!
//! 1. Nothing here calls an operation of a driver that may wait for work (DRV-5). Memory is neither
//!    mapped to be read nor mapped to be filled, and an event stands behind everything that is
//!    submitted.
//! 2. Wherever the function can stop, memory that a device still uses is in an [`InFlight`] or kept
//!    by its queue, because the copy may be dropped there.

use super::in_flight::{InFlight, OnItsWay};
use super::memory_wait::allocated;
use super::staged::{self, ChunkMemory};
use super::target::Target;
use super::{finish_on_host, gather, gathered, regions_to_host, result};
use crate::array::{Pending, ReadyWhen, SizesOnDevice, read_i64};
use crate::clock::Instant;
use crate::copy::awaited;
use crate::copy::options::Options;
use crate::copy::plan::chunks::{chunks, parts};
use crate::copy::plan::piece::Piece;
use crate::copy::plan::stopped::StoppedWalk;
use crate::copy::plan::transfer::Transfer;
use crate::copy::plan::walk::{self, KnownSizes, Walked};
use crate::copy::plan::{DOWNLOADED_AT_ONCE, named};
use crate::copy::route::{CopyRoute, Pace};
use crate::copy::source::{CopySource, Span};
use crate::copy::step::{self, no_way};
use crate::device::ReadsTo;
use crate::device::deferred;
use crate::device::driver::{self, Readiness, WaitingCopies};
use crate::device::staging::StagingBlock;
use crate::trace::told;
use crate::{Array, Event, Queue, Result};

/// Copies an array. The future is pending wherever a device has to be waited for. A copy that is
/// polled wakes nobody: its owner polls it again. A copy that is awaited has its waker called.
pub(in crate::copy) async fn copy(array: Array, queue: Queue, options: Options) -> Result<Array> {
    let (from, to) = (array.device(), queue.device().id());
    let planned = planned(&array, &queue, &options).await;
    let planned = planned.map_err(|error| named(error).on_device_if_none(from))?;
    let Some((transfer, walked)) = planned else { return Ok(array) };
    carried_out(transfer, walked).await.map_err(|error| error.on_device_if_none(to))
}

/// Completes with the memory in flight when its queue has passed it.
async fn passed<T: Send + 'static>(what: InFlight<T>) -> Result<T> {
    let event = what.event().clone();
    awaited::passed(&event).await?;
    what.into_passed()
}

/// Completes with memory of the host when the bytes on their way have arrived.
async fn arrived<T: Send + 'static>(what: OnItsWay<T>) -> Result<T> {
    let event = what.event().clone();
    awaited::passed(&event).await?;
    // SAFETY: the event has passed.
    unsafe { what.into_arrived() }
}

/// Completes when the queue is ordered behind the array.
async fn ordered(array: &Array, queue: &Queue) -> Result<()> {
    awaited::ordered(array, queue).await.map_err(|error| error.at_step(step::ORDER))
}

/// Makes the plan. `None` where the array is shared, so that nothing moves.
async fn planned(
    array: &Array,
    queue: &Queue,
    options: &Options,
) -> Result<Option<(Transfer, Walked)>> {
    let Some(mut transfer) = Transfer::choose(array, queue, options, Pace::Polled)? else {
        return Ok(None);
    };
    if transfer.source.is_on_host() {
        let is_ready = awaited::ready(array).await;
        is_ready.map_err(|error| error.at_step(step::WAIT_FOR_SOURCE))?;
        // SAFETY: W1: `choose` chose the source for this array, which is ready by now.
        let walked = unsafe { walk::walk(transfer.terms(&[])) }?;
        return Ok(Some((transfer, walked)));
    }
    let sizes = sizes(&mut transfer).await?;
    // SAFETY: W1: `choose` chose the source for this array, and the host reads nothing of it.
    let mut walk = unsafe { StoppedWalk::begin(transfer.terms(&sizes)) }?;
    loop {
        let spans = walk.asks_for();
        if spans.is_empty() {
            return Ok(Some((transfer, walk.end()?)));
        }
        // SAFETY: the spans lie inside the buffers of the array (UNS-4, or the builder's check).
        let bytes = unsafe { read(&mut transfer, &spans, step::LEARN) }.await?;
        // SAFETY: W1: `choose` chose the source for this array, and the host reads nothing of it;
        // the terms are those of the same plan.
        walk = unsafe { walk.answer(transfer.terms(&sizes), &bytes) }?;
    }
}

/// Reads the sizes of data buffers of views that the producer left in its device's memory.
async fn sizes(transfer: &mut Transfer) -> Result<Vec<KnownSizes>> {
    if !transfer.array.may_have_sizes_on_device() {
        return Ok(Vec::new());
    }
    let queue = lane(transfer).await?;
    let found = transfer.array.sizes_on_device(&queue)?;
    let span = |sizes: &SizesOnDevice| Span { spot: sizes.spot, len: 8 * sizes.count as u64 };
    let spans: Vec<Span> = found.iter().map(span).collect();
    if spans.is_empty() {
        return Ok(Vec::new());
    }
    // SAFETY: UNS-3: the buffer of sizes has an `int64` for each variadic buffer.
    let bytes = unsafe { read(transfer, &spans, step::LEARN) }.await?;
    let mut rest = bytes.chunks_exact(8);
    let known = |sizes: &SizesOnDevice| {
        let own = rest.by_ref().take(sizes.count).enumerate();
        let size =
            |(number, bytes)| transfer.array.checked_size(number, read_i64(bytes, 0).unwrap_or(-1));
        Ok(KnownSizes { source: sizes.node, sizes: own.map(size).collect::<Result<_>>()? })
    };
    found.iter().map(known).collect()
}

/// The queue that reads the source, ordered behind the data.
async fn lane(transfer: &mut Transfer) -> Result<Queue> {
    let CopySource::Lane(lane) = &mut transfer.source else { return Err(no_way()) };
    let queue = lane.open()?.clone();
    ordered(&transfer.array, &queue).await?;
    let CopySource::Lane(lane) = &transfer.source else { return Err(no_way()) };
    // The lane keeps the data from now on. The order was made before.
    lane.queue().cloned()
}

/// Reads spans of the source, one after the other.
///
/// # Safety
/// The spans lie inside the source.
async unsafe fn read(
    transfer: &mut Transfer,
    spans: &[Span],
    step: &'static str,
) -> Result<Vec<u8>> {
    lane(transfer).await?;
    // SAFETY: the spans lie inside the source, as the caller promises, which the plan keeps.
    let submitted = unsafe { transfer.source.submit_read(spans) };
    let read = submitted.map_err(|error| error.at_step(step))?;
    arrived(read).await.map_err(|error| error.at_step(step))
}

async fn carried_out(mut transfer: Transfer, walked: Walked) -> Result<Array> {
    told!(
        route = ?transfer.route,
        bytes = walked.pieces.total(),
        from = %transfer.array.device(),
        to = %transfer.queue.device().id(),
        "copy"
    );
    let mut target = allocated(&mut transfer, &walked, awaited::next_poll).await?;
    let pieces = walked.pieces.list();
    if pieces.is_empty() {
        // SAFETY: there are no pieces.
        return unsafe { result::build(&transfer, &walked, target, ReadyWhen::Now) };
    }
    let readiness = match transfer.route.clone() {
        CopyRoute::Gather => {
            // SAFETY: the host reads the source, which is ready; the target is host memory.
            unsafe { gather::into_target(&transfer.source, pieces, &mut target) }?;
            ReadyWhen::Now
        }
        CopyRoute::ToHost => {
            target = to_host(&mut transfer, pieces, target).await?;
            ReadyWhen::Now
        }
        CopyRoute::FromHost => {
            let is_gathered = transfer.is_gathered() || may_wait(&transfer.queue);
            let last = match is_gathered {
                true => gathered_chunks(&mut transfer, &walked, &target).await?,
                false => {
                    transfer.upload(&walked, &target)?;
                    None
                }
            };
            finished(&transfer.queue, last).await?
        }
        route @ (CopyRoute::Within | CopyRoute::Peer(_)) => {
            directly(&mut transfer, &route, pieces, &target).await?;
            finished(&transfer.queue, None).await?
        }
        CopyRoute::Staged => {
            let last = staged_chunks(&mut transfer, &walked, &target).await?;
            finished(&transfer.queue, last).await?
        }
    };
    // SAFETY: each way above wrote or submitted all pieces, and gave the event behind them, or what
    // was submitted has passed.
    unsafe { result::build(&transfer, &walked, target, readiness) }
}

/// When the result is ready. Called after all work was submitted. `last` is an event behind all
/// work, where there is one already.
async fn finished(queue: &Queue, last: Option<Event>) -> Result<ReadyWhen> {
    let last = match last {
        Some(event) => event,
        None => queue.record().map_err(|error| error.at_step(step::RECORD))?,
    };
    if queue.device().properties().readiness == Readiness::HostWait {
        let is_over = awaited::passed(&last).await;
        is_over.map_err(|error| error.at_step(step::FINISH))?;
        return Ok(ReadyWhen::Now);
    }
    Ok(ReadyWhen::After(Pending::Event(last)))
}

async fn to_host(transfer: &mut Transfer, pieces: &[Piece], mut target: Target) -> Result<Target> {
    let queue = lane(transfer).await?;
    let total = pieces.last().map_or(0, Piece::end);
    let at_once = match may_wait(&queue) {
        true => transfer.options.chunk,
        false => DOWNLOADED_AT_ONCE,
    };
    for stretch in chunks(total, at_once) {
        let regions = regions_to_host(pieces, &target, stretch);
        // SAFETY: UNS-21: the sources were checked when the copy was planned, as far as anybody
        // can, and are kept by the lane; the target was allocated for these pieces.
        let on_its_way = unsafe { OnItsWay::submit(&queue, target, regions, ReadsTo::Any) };
        let on_its_way = on_its_way.map_err(|error| error.at_step(step::SUBMIT))?;
        target = arrived(on_its_way).await.map_err(|error| error.at_step(step::FINISH))?;
    }
    finish_on_host(pieces, target)
}

async fn directly(
    transfer: &mut Transfer,
    route: &CopyRoute,
    pieces: &[Piece],
    target: &Target,
) -> Result<()> {
    let spans = transfer.detour_spans(pieces);
    let fetched = match spans.is_empty() {
        true => Vec::new(),
        // SAFETY: checked when the copy was planned: the spans are those of pieces of the source.
        false => unsafe { read(transfer, &spans, step::FETCH) }.await?,
    };
    let (array, queue) = (transfer.array.clone(), transfer.queue.clone());
    ordered(&array, &queue).await?;
    match route {
        CopyRoute::Peer(peer) => {
            // Keeps the source until the queue has passed the copy.
            let view = array.on(&queue).map_err(|error| error.at_step(step::ORDER))?;
            let route = driver::Route::FromPeer(&**peer.driver());
            let submitted = transfer.directly_with(fetched, pieces, target, route);
            drop(view);
            submitted
        }
        _ => transfer.directly_with(fetched, pieces, target, driver::Route::Within),
    }
}

/// Whether copies of memory that is not pinned may wait for the queue.
fn may_wait(queue: &Queue) -> bool {
    queue.device().properties().waiting_copies != WaitingCopies::None
}

/// Completes when there is room for a first chunk, when no release of held-back memory would make
/// room, or when an allocation would wait no longer.
async fn others_have_passed(memory: &ChunkMemory<'_>) -> Result<()> {
    let (began, runtime) = (Instant::now(), memory.device().driver().runtime());
    loop {
        deferred::release_passed_of(runtime);
        let has_time = began.elapsed() < deferred::allocation_timeout();
        if !(memory.is_in_want() && has_time && deferred::holds_back_on(runtime)) {
            return Ok(());
        }
        awaited::next_poll().await?;
    }
}

/// Completes with memory for the next chunk of a copy.
async fn next_block(memory: &mut ChunkMemory<'_>) -> Result<StagingBlock> {
    if memory.is_in_want() {
        others_have_passed(memory).await?;
    }
    match memory.oldest_in_the_way() {
        None => memory.fresh_without_waits(),
        Some(oldest) => passed(oldest).await.map_err(|error| error.at_step(step::WRITE)),
    }
}

/// [`gathered::run`], polled.
async fn gathered_chunks(
    transfer: &mut Transfer,
    walked: &Walked,
    target: &Target,
) -> Result<Option<Event>> {
    let (pieces, total) = (walked.pieces.list(), walked.pieces.total());
    let (queue, chunk) = (transfer.queue.clone(), transfer.gathered_chunk());
    let mut memory = ChunkMemory::new(queue.device(), chunk, total, gathered::SMALLEST);
    for (start, end) in chunks(total, chunk) {
        let mut block = next_block(&mut memory).await?;
        let parts = parts(pieces, start, end);
        gathered::gather(&transfer.source, &parts, staged::bytes_of(&mut block, end - start))?;
        memory.send(staged::write(transfer, &parts, (start, end), target, block)?);
    }
    Ok(memory.last_event())
}

/// [`staged::run`], polled.
async fn staged_chunks(
    transfer: &mut Transfer,
    walked: &Walked,
    target: &Target,
) -> Result<Option<Event>> {
    let from = lane(transfer).await?;
    let (pieces, total) = (walked.pieces.list(), walked.pieces.total());
    let (queue, chunk) = (transfer.queue.clone(), transfer.options.chunk);
    let mut memory = ChunkMemory::new(queue.device(), chunk, total, staged::SMALLEST);
    for (start, end) in chunks(total, chunk) {
        let block = next_block(&mut memory).await?;
        let parts = parts(pieces, start, end);
        let regions = staged::regions_to_read(&parts, &block);
        let is_apart = block.require_no_wait(from.device()).is_err();
        let reads_to = if is_apart { ReadsTo::Any } else { ReadsTo::NoWait };
        // SAFETY: UNS-21: the sources were checked when the copy was planned, and the lane keeps
        // them; the block has room for a chunk.
        let on_its_way = unsafe { OnItsWay::submit(&from, block, regions, reads_to) };
        let on_its_way = on_its_way.map_err(|error| error.at_step(step::READ))?;
        let mut block = arrived(on_its_way).await.map_err(|error| error.at_step(step::READ))?;
        staged::change(&parts, staged::bytes_of(&mut block, end - start))?;
        memory.send(staged::write(transfer, &parts, (start, end), target, block)?);
    }
    Ok(memory.last_event())
}
