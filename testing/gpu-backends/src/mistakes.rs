//! Each mistake that a backend could make, made on purpose, is reported by the simulated driver.
//!
//! A call is left out by having the driver say that it was done.

use arrow_device::driver::SyncEvent;
use arrow_device::{Array, Queue};

use crate::{Kind, Machine, numbers, settle};

struct Scene<'a> {
    machine: &'a Machine,
    one: Queue,
    two: Queue,
    /// Still being written on the first queue.
    array: Array,
}

impl<'a> Scene<'a> {
    fn new(machine: &'a Machine) -> Self {
        let device = machine.open(0, Kind::Device);
        let [one, two] = [(); 2].map(|()| device.open_queue().unwrap());
        let array = numbers().copy_to(&one).unwrap();
        Self { machine, one, two, array }
    }

    /// Reads the values on a queue, in a view for the second one; returns what was reported.
    fn read_on(&self, queue: &Queue) -> Vec<String> {
        let view = self.array.on(&self.two).unwrap();
        let address = view.buffer(1).location().address() as u64;
        let kernel = self.machine.sim.kernel("read").reads(address, 12);
        assert_eq!(kernel.launch(queue.raw().as_ptr() as u64, |_| {}), 0);
        queue.synchronize().unwrap();
        drop(view);
        self.end()
    }

    fn end(&self) -> Vec<String> {
        let _ = (self.one.synchronize(), self.two.synchronize());
        self.machine.take_mistakes()
    }
}

pub fn right(machine: &Machine) {
    let scene = Scene::new(machine);
    assert_eq!(scene.read_on(&scene.two), [""; 0]);
}

pub fn no_wait(machine: &Machine) {
    let scene = Scene::new(machine);
    machine.sim.fail(machine.name("cuStreamWaitEvent", "hipStreamWaitEvent"), 1, 0);
    assert_eq!(scene.read_on(&scene.two), ["UnorderedRead"]);
}

pub fn no_record(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let [one, two] = [(); 2].map(|()| device.open_queue().unwrap());
    machine.sim.fail(machine.name("cuEventRecord", "hipEventRecord"), 1, 0);
    let array = numbers().copy_to(&one).unwrap();
    let scene = Scene { machine, one, two, array };
    let mistakes = scene.read_on(&scene.two);
    assert!(mistakes.contains(&"UnorderedRead".to_owned()), "{mistakes:?}");
}

pub fn wrong_stream(machine: &Machine) {
    let scene = Scene::new(machine);
    let other = scene.one.device().open_queue().unwrap();
    assert_eq!(scene.read_on(&other), ["UnorderedRead"]);
}

pub fn early_free(machine: &Machine) {
    let Scene { one, two, array, .. } = Scene::new(machine);
    let view = array.on(&two).unwrap();
    let address = view.buffer(1).location().address() as u64;
    let kernel = machine.sim.kernel("read").reads(address, 12);
    assert_eq!(kernel.launch(two.raw().as_ptr() as u64, |_| {}), 0);
    drop(view);
    let query = machine.name("cuEventQuery", "hipEventQuery");
    for nth in 1..=6 {
        machine.sim.fail(query, nth, 0);
    }
    drop(array);
    let mistakes = machine.take_mistakes();
    assert!(mistakes.contains(&"FreedInUse".to_owned()), "{mistakes:?}");
    // Uses up what is left of the orders to lie.
    let event = one.record().unwrap();
    for _ in 0..8 {
        let _ = event.is_complete();
    }
    let _ = (one.synchronize(), two.synchronize());
    settle();
    machine.take_mistakes();
}

pub fn no_current_device(machine: &Machine) {
    let device = machine.open(1, Kind::Device);
    let enter = machine.name("cuCtxPushCurrent_v2", "hipSetDevice");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let queue = device.open_queue().unwrap();
            machine.sim.fail(enter, 1, 0);
            let error = queue.record().map(drop);
            let mistakes = machine.take_mistakes();
            match machine.is_cuda() {
                true => assert!(mistakes.contains(&"NoContext".to_owned()), "{mistakes:?}"),
                false => {
                    assert!(mistakes.contains(&"WrongContext".to_owned()), "{mistakes:?} {error:?}")
                }
            }
        });
    });
    settle();
    machine.take_mistakes();
}

pub fn event_destroyed_early(machine: &Machine) {
    let scene = Scene::new(machine);
    let event = scene.one.record().unwrap();
    let SyncEvent::Handle(handle) = event.sync_event().unwrap() else { unreachable!() };
    let destroy = machine.name("cuEventDestroy_v2", "hipEventDestroy");
    machine.entered(|| assert_eq!(machine.raw(destroy, &[handle as u64]), 0));
    assert!(scene.two.wait(&event).is_err());
    let mistakes = scene.end();
    assert!(mistakes.contains(&"EventDestroyed".to_owned()), "{mistakes:?}");
    // The handle is nobody's now, and may not be kept for another use.
    std::mem::forget(event);
}
