use std::sync::Mutex;

use arrow_device::{Array, ArrayStream, DataType, DeviceType, Result};

fn take(stream: &Mutex<ArrayStream>) -> Option<Result<Array>> {
    stream.lock().unwrap().next()
}

fn main() {
    let one = Array::from_values(DataType::Int32, [Some(1)]);
    let stream = ArrayStream::new(DataType::Int32.try_into().unwrap(), DeviceType::CPU, [one]);
    let stream = Mutex::new(stream);
    let seen = std::thread::scope(|threads| {
        let threads = [threads.spawn(|| take(&stream)), threads.spawn(|| take(&stream))];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(seen.into_iter().flatten().count(), 1);
}
