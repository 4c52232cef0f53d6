use arrow_device::{Array, View};

fn look(array: &Array) -> View {
    array.on().unwrap()
}

fn main() {}
