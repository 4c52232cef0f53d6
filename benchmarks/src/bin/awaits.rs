//! What it costs to await an event in the place of a blocking wait.
//!
//! `arrow-device-awaits [TURNS]` submits a copy on each device that is here, and waits for its
//! event in turns: by `synchronize`, and by `block_on`, which polls, sleeps and is woken. Beside
//! each pair it measures what it takes to wake a thread on this machine at that moment.
//!
//! The aims: in the median, `block_on` takes at most [`MOST`] and one wake-up more than
//! `synchronize`; and in a second in which nobody waits, the thread that wakes whoever awaits uses
//! no processor time. The program fails where an aim is not reached.

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use arrow_device::async_stream::block_on;
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Device, Event, Queue, Result};

/// Takes long enough that whoever waits for it has gone to sleep.
const BYTES: usize = 8 << 20;
const IDLE: Duration = Duration::from_secs(1);
/// What an awaited event may take more than a blocking wait, in microseconds, besides one wake-up.
const MOST: f64 = 3.0;
/// Turns that are not counted: threads begin, and memory is used for the first time.
const FIRST: usize = 10;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all aims are reached.
fn run() -> Result<bool> {
    let turns = std::env::args().nth(1).and_then(|turns| turns.parse().ok()).unwrap_or(400);
    let sleeper = Sleeper::start();
    let mut is_reached = true;
    is_reached &=
        compare("OpenCL, which announces", arrow_device_opencl::open(0), turns, &sleeper)?;
    is_reached &= compare("Vulkan, which is asked", arrow_device_vulkan::open(0), turns, &sleeper)?;
    let before = Waiter::look();
    std::thread::sleep(IDLE);
    let idle = Waiter::look().since(before);
    println!(
        "a second without waits: {:?} of the processor's time, aim: none",
        idle.processor_time
    );
    Ok(is_reached && idle.processor_time.is_zero())
}

fn compare(name: &str, device: Result<Device>, turns: usize, sleeper: &Sleeper) -> Result<bool> {
    let Ok(device) = device else {
        println!("{name}: none here");
        return Ok(true);
    };
    let queue = device.open_queue()?;
    let work = Work::new(&queue)?;
    let (mut blocked, mut awaited, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut more, mut above) = (Vec::new(), Vec::new());
    let mut before = Waiter::look();
    for turn in 0..turns + FIRST {
        if turn == FIRST {
            before = Waiter::look();
        }
        // Whoever comes second finds the caches as the other one left them.
        let blocking_first = turn % 2 == 0;
        let first = wait(&queue, &work, blocking_first)?;
        let second = wait(&queue, &work, !blocking_first)?;
        let (blocking, awaiting) = if blocking_first { (first, second) } else { (second, first) };
        let wake = sleeper.wake();
        if turn >= FIRST {
            blocked.push(blocking);
            awaited.push(awaiting);
            wakes.push(wake);
            more.push(awaiting - blocking);
            above.push(awaiting - blocking - wake);
        }
    }
    let switches = Waiter::look().since(before).switches as f64 / turns as f64;
    let (blocked, awaited, wake) = (median(blocked), median(awaited), median(wakes));
    let (more, above) = (median(more), median(above));
    let is_reached = above <= MOST;
    let word = if is_reached { "reached" } else { "not reached" };
    println!(
        "{name}: synchronize {blocked:.1} µs, await {awaited:.1} µs, {more:+.1} µs in the median \
         pair; a wake-up {wake:.1} µs; {above:+.1} µs besides one wake-up, aim: at most {MOST} \
         ({word}); the thread that wakes slept {switches:.2} times for each await"
    );
    Ok(is_reached)
}

/// Submits a copy and waits for it: how many microseconds the wait took.
fn wait(queue: &Queue, work: &Work, is_blocking: bool) -> Result<f64> {
    match is_blocking {
        true => time(queue, work, Event::synchronize),
        false => time(queue, work, |event| block_on(event)),
    }
}

/// A copy within the device.
struct Work {
    _memory: [arrow_device::Memory; 2],
    spots: [Spot; 2],
}

impl Work {
    fn new(queue: &Queue) -> Result<Self> {
        let mut memory = [queue.allocate(BYTES as u64)?, queue.allocate(BYTES as u64)?];
        let zeros = vec![0; BYTES];
        let mut spots = [Spot { base: Raw::NULL, offset: 0 }; 2];
        for (memory, spot) in memory.iter_mut().zip(&mut spots) {
            memory.write(queue, &zeros)?;
            *spot = memory.spot(queue)?;
        }
        queue.synchronize()?;
        Ok(Self { _memory: memory, spots })
    }

    fn submit(&self, queue: &Queue) -> Result<()> {
        let [from, to] = self.spots;
        let region = Region { from, to, len: BYTES as u64 };
        // SAFETY: UNS-21: both lie in memory that this value keeps, in the order of the queue.
        unsafe { queue.copy(Route::Within, &[region]) }
    }
}

fn time(queue: &Queue, work: &Work, wait: impl Fn(&Event) -> Result<()>) -> Result<f64> {
    work.submit(queue)?;
    let event = queue.record()?;
    let began = Instant::now();
    wait(&event)?;
    Ok(micros(began.elapsed()))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A thread that sleeps until it gets a message, and sends one back.
struct Sleeper {
    there: mpsc::Sender<()>,
    back: mpsc::Receiver<()>,
}

impl Sleeper {
    /// Starts the thread, which ends when the sender of its messages is dropped.
    fn start() -> Self {
        let (there, at_there) = mpsc::channel::<()>();
        let (here, back) = mpsc::channel::<()>();
        std::thread::spawn(move || while at_there.recv().is_ok() && here.send(()).is_ok() {});
        Self { there, back }
    }

    /// Half of the time from a message to the thread that sleeps until its answer.
    fn wake(&self) -> f64 {
        std::thread::sleep(Duration::from_micros(300));
        let began = Instant::now();
        let _ = self.there.send(());
        let _ = self.back.recv();
        micros(began.elapsed()) / 2.0
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// What the thread that wakes whoever awaits has used so far, where the system tells.
#[derive(Clone, Copy, Default)]
struct Waiter {
    processor_time: Duration,
    /// How often it went to sleep.
    switches: u64,
}

impl Waiter {
    fn look() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let is_the_waiter = |task: &std::fs::DirEntry| {
            let name = std::fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name.starts_with("arrow-device-wa"))
        };
        let Some(task) = tasks.into_iter().find(is_the_waiter) else { return Self::default() };
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let number = |text: &str| text.trim().parse::<u64>().unwrap_or_default();
        let processor_time = read("schedstat").split(' ').next().map(number);
        let switches = read("status")
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:").map(number));
        Self {
            processor_time: Duration::from_nanos(processor_time.unwrap_or_default()),
            switches: switches.unwrap_or_default(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            processor_time: self.processor_time.saturating_sub(before.processor_time),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}
